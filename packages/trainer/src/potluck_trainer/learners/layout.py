"""Texts laid out for one packed pass: no padding, and what neighbours begin with in common stands there once.

A text is a decision behind its rules, or the rules themselves. Texts of one adapter and prefix lie together, sorted, so
that each shares its beginning with the one before; only the rest are new tokens. Attention sees pieces of at most
PIECE new tokens of a text, each with the keys of the whole text, gathered by number from a *source*: a row of zeros for
padding, the prefixes of the pass, then its tokens.

Axes: N texts, T tokens, R reads, S slots of a piece, K key places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from potluck.decoder import masks
from potluck.decoder.attention import Heads, View, padded_keys, padded_slots, view
from potluck.decoder.trie import NO_LABELS, Trie, shared
from potluck.decoder.weights import runs

Index = NDArray[np.int64]
PIECE = 32


class Text(NamedTuple):
    """Tokens behind a prefix, and the label trie behind them."""

    owner: int
    """Whose adapter, by number."""
    past: int
    """Which of the pass's prefixes; -1 = none."""
    ids: tuple[int, ...]
    trie: Trie = NO_LABELS
    reads: tuple[int, ...] = ()
    """Trie nodes whose final states are wanted."""


class Owned(NamedTuple):
    """Rows [start, end) of one adapter."""

    owner: int
    start: int
    end: int


class Seen(NamedTuple):
    """Attention of some queries."""

    view: View
    keys: Tensor
    """Where each key place lies in the source, [pieces * K]."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything about a pass that does not depend on weights."""

    ids_T: Tensor
    positions_T: Tensor
    longest: int
    """The largest position."""
    owned: tuple[Owned, ...]
    seen: Seen
    reads_R: Tensor
    read_owned: tuple[Owned, ...]
    read_seen: Seen
    starts: tuple[int, ...]
    """Of each text how many of its tokens an earlier text holds."""
    sizes: tuple[int, ...]
    """Of each text its new tokens."""


def beginnings(texts: Sequence[Text]) -> Iterator[int]:
    """For each text how many of its tokens the one before holds already."""
    before: Text | None = None
    for text in texts:
        alike = before is not None and (before.owner, before.past) == (text.owner, text.past)
        yield shared(before.ids, text.ids) if before is not None and alike else 0
        before = text


def lay_out(texts: Sequence[Text], pasts: Sequence[int], heads: Heads, device: torch.device) -> Layout:
    """The pass of some texts behind prefixes of so many tokens each."""
    starts = tuple(beginnings(texts))
    sizes = tuple(len(t.ids) - s + len(t.trie.tokens) for t, s in zip(texts, starts, strict=True))
    offsets = np.cumsum([1, *pasts])
    before = np.array([pasts[t.past] if t.past >= 0 else 0 for t in texts])
    firsts, ends = before + np.array(starts), before + np.array([len(t.ids) for t in texts])
    tries = [t.trie for t in texts]
    keys = padded_keys(int((ends + np.array([len(one.tokens) for one in tries])).max()), True)
    index, ids, roots = _places(texts, starts, sizes, offsets, keys)
    mask = masks.mask(tries, firsts, ends, padded_slots(max(sizes)), keys)
    positions = masks.positions(tries, firsts, ends)
    counts = np.array(sizes)
    heads_of = np.cumsum(counts) - counts
    reads = [
        roots[n] if not node else int(heads_of[n] + counts[n] - len(t.trie.tokens)) + node - 1
        for n, t in enumerate(texts)
        for node in t.reads
    ]
    read_counts = np.array([len(t.reads) for t in texts])
    return Layout(
        ids_T=_tensor(ids, device),
        positions_T=_tensor(positions, device),
        longest=int(positions.max()),
        owned=_owned(texts, counts),
        seen=_pieces(counts, mask, index, heads, device),
        reads_R=_tensor(np.array(reads, np.int64), device),
        read_owned=_owned(texts, read_counts),
        read_seen=Seen(
            view(read_counts, _read_mask(texts, firsts, ends, mask), heads, device), _tensor(index.reshape(-1), device)
        ),
        starts=starts,
        sizes=sizes,
    )


def _places(
    texts: Sequence[Text], starts: Sequence[int], sizes: Sequence[int], offsets: Index, keys: int
) -> tuple[Index, Index, list[int]]:
    """Where each text's keys lie in the source [N, K], the new tokens' ids, and each text's root token."""
    index = np.zeros((len(texts), keys), np.int64)
    ids: list[int] = []
    roots: list[int] = []
    path = np.zeros(0, np.int64)
    for n, (text, start, size) in enumerate(zip(texts, starts, sizes, strict=True)):
        past, begin = 0, int(offsets[-1]) + len(ids)
        if text.past >= 0:
            past = int(offsets[text.past + 1] - offsets[text.past])
            index[n, :past] = np.arange(offsets[text.past], offsets[text.past + 1])
        new = np.arange(begin, begin + size)
        fresh = len(text.ids) - start
        path = np.concatenate([path[:start], new[:fresh]])
        index[n, past : past + len(path)] = path
        index[n, past + len(path) : past + len(path) + size - fresh] = new[fresh:]
        ids += [*text.ids[start:], *text.trie.tokens]
        roots.append(int(path[-1] - offsets[-1]))
    return index, np.array(ids, np.int64), roots


def _pieces(counts: Index, mask: NDArray[np.float32], index: Index, heads: Heads, device: torch.device) -> Seen:
    number = -(-counts // PIECE)
    text = np.repeat(np.arange(len(counts)), number)
    first = (np.arange(len(text)) - np.repeat(np.cumsum(number) - number, number)) * PIECE
    size = np.minimum(counts[text] - first, PIECE)
    slots = np.minimum(first[:, None] + np.arange(padded_slots(int(size.max()))), mask.shape[1] - 1)
    return Seen(view(size, mask[text[:, None], slots], heads, device), _tensor(index[text].reshape(-1), device))


def _read_mask(texts: Sequence[Text], firsts: Index, ends: Index, mask: NDArray[np.float32]) -> NDArray[np.float32]:
    """What reads see, [N, slots, K]; a slot without a read sees everything, for no softmax may be empty."""
    out = np.zeros((len(texts), padded_slots(max(len(t.reads) for t in texts)), mask.shape[2]), np.float32)
    for n, text in enumerate(texts):
        for slot, node in enumerate(text.reads):
            if node:
                out[n, slot] = mask[n, ends[n] - firsts[n] - 1 + node]
            else:
                out[n, slot, ends[n] :] = -np.inf
    return out


def _owned(texts: Sequence[Text], counts: Index) -> tuple[Owned, ...]:
    found = runs([text.owner for text in texts], np.cumsum(counts))
    return tuple(Owned(texts[number].owner, start, end) for number, start, end in found)


def _tensor(array: Index, device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
