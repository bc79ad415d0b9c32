"""A one-sided paired permutation test for a statistic of sums over episodes.

Under the null the two conditions are exchangeable within each seed: swapping the conditions of any set of seeds gives a
draw as likely as the observed one. Exact up to 13 pairs, else 9,999 random swaps and the observed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from potluck_audit.intervals import Floats
from potluck_audit.statistics import EXACT_PAIRS

DRAWS = 9_999


def p_rose(statistic: Callable[..., Any], before: Sequence[Floats], after: Sequence[Floats], seed: int) -> float | None:
    """p-value of "the statistic is higher after than before"; columns hold one number a pair.

    None with fewer than two pairs or where the statistic is undefined. Draws in which it is undefined count as extreme,
    so that a test with little to rest on does not find much.
    """
    pairs = len(before[0])
    if pairs < 2:
        return None
    swaps = _swaps(pairs, seed)
    steps = [b - a for a, b in zip(before, after, strict=True)]
    low = statistic(*(a.sum() + swaps @ step for a, step in zip(before, steps, strict=True)))
    high = statistic(*(b.sum() - swaps @ step for b, step in zip(after, steps, strict=True)))
    changes = np.asarray(high - low, float)
    observed = changes[0]  # the first row swaps nothing
    if not np.isfinite(observed):
        return None
    extreme = ~np.isfinite(changes) | (changes >= observed - 1e-12)
    return float(extreme.mean())


def p_fell(statistic: Callable[..., Any], before: Sequence[Floats], after: Sequence[Floats], seed: int) -> float | None:
    """p-value of "the statistic is lower after than before"."""
    return p_rose(statistic, after, before, seed)


def _swaps(pairs: int, seed: int) -> Floats:
    """Rows of zeros and ones; the first row is all zeros."""
    if pairs <= EXACT_PAIRS:
        return ((np.arange(1 << pairs)[:, None] >> np.arange(pairs)) & 1).astype(float)
    drawn = np.random.default_rng(seed).integers(0, 2, size=(DRAWS, pairs)).astype(float)
    return np.vstack([np.zeros(pairs), drawn])
