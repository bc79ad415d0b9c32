"""Text to token ids. A tokenizer that reads every word by itself is asked about each word once.

That holds where white space is dropped before anything else is cut, and nothing looks across it. It is read off the
tokenizer's own description; any other tokenizer encodes every text whole.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

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

    if not word_by_word(json.loads(tokenizer.to_str())):
        return whole
    one = remembered(whole, 1 << 15, 64)

    def by_word(text: str) -> Ids:
        return tuple(itertools.chain.from_iterable(map(one, text.replace("\n", " ").split(" "))))

    return by_word


def word_by_word(description: Mapping[str, Any]) -> bool:
    """True where the ids of a text are those of its words, one after the other."""
    cuts = description["pre_tokenizer"] or {}
    first: Mapping[str, Any] = next(iter(cuts.get("pretokenizers", [cuts])), {})
    normalizer = description["normalizer"]
    return (
        first.get("type") == "WhitespaceSplit"
        and (normalizer is None or normalizer["type"] == "Lowercase")
        and not any(mark["lstrip"] or mark["rstrip"] or " " in mark["content"] for mark in description["added_tokens"])
        and description["truncation"] is None
        and description["padding"] is None
    )
