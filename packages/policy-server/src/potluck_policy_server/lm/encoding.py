"""Text to token ids. A tokenizer that reads every word by itself is asked about each word once.

That holds where white space is dropped before anything else is cut, and nothing looks across it. It is read off the
tokenizer's own parts; any other tokenizer encodes every text whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tokenizers import normalizers, pre_tokenizers

Ids = tuple[int, ...]


def remembered(read: Callable[[str], Ids], count: int, longest: int) -> Callable[[str], Ids]:
    """Remembers what was read of so many texts of at most `longest` characters; longer ones are read anew, so memory is
    bounded whatever a client sends."""
    known = lru_cache(maxsize=count)(read)
    return lambda text: known(text) if len(text) <= longest else read(text)


def encoder(tokenizer: Any) -> Callable[[str], Ids]:
    """From text to ids, without begin or end marks; `tokenizer` is one of the library `tokenizers`."""

    def whole(text: str) -> Ids:
        return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

    if not word_by_word(tokenizer):
        return whole
    one = remembered(whole, 1 << 15, 64)

    def by_word(text: str) -> Ids:
        return tuple(itertools.chain.from_iterable(map(one, text.replace("\n", " ").split(" "))))

    return by_word


def word_by_word(tokenizer: Any) -> bool:
    """True where the ids of a text are those of its words, one after the other."""
    cuts, normalizer = tokenizer.pre_tokenizer, tokenizer.normalizer
    first: Any = next(iter(cuts), None) if isinstance(cuts, pre_tokenizers.Sequence) else cuts
    marks = tokenizer.get_added_tokens_decoder().values()
    return (
        isinstance(first, pre_tokenizers.WhitespaceSplit)
        and (normalizer is None or isinstance(normalizer, normalizers.Lowercase))
        and not any(mark.lstrip or mark.rstrip or " " in mark.content for mark in marks)
        and tokenizer.truncation is None
        and tokenizer.padding is None
    )
