"""Who sees whom: masks and positions of packed rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from potluck.decoder.trie import Trie

Index = NDArray[np.int64]


def mask(tries: Sequence[Trie], firsts: Index, ends: Index, slots: int, keys: int) -> NDArray[np.float32]:
    """[decision, slot, key]: 0 where a key is seen, -inf elsewhere.

    A decision's new tokens are those at positions [first, end), then its trie's extra tokens, which see everything
    before `end`, their ancestors and themselves. Slots behind a decision's last one are never read.
    """
    position = firsts[:, None] + np.arange(slots)
    seen = np.arange(keys) <= np.minimum(position, ends[:, None] - 1)[:, :, None]
    for index, trie in enumerate(tries):
        first, end = int(ends[index] - firsts[index]), int(ends[index])
        for node, parent in enumerate(trie.parents):
            own = seen[index, first + node]
            if parent:
                own[end:] = seen[index, first + parent - 1, end:]
            own[end + node] = True
    return np.where(seen, np.float32(0), np.float32(-np.inf))


def positions(tries: Sequence[Trie], firsts: Index, ends: Index) -> Index:
    """Positions of the new tokens, then, for each extra token, that of the root plus its depth."""
    parts = [
        np.concatenate([np.arange(first, end), end - 1 + np.array(trie.depths, np.int64)])
        for trie, first, end in zip(tries, firsts, ends, strict=True)
    ]
    return np.concatenate(parts).astype(np.int64)
