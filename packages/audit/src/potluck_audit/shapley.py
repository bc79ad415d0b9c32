"""Exact Shapley values of a cooperative game given as the value of every coalition.

    φ_i = Σ_{S ∌ i} |S|! (n - |S| - 1)! / n! · [v(S ∪ {i}) - v(S)],      Σ φ_i = v(N) - v(∅)

A coalition is a frozenset of players. Inside, coalitions are bit masks over the players' order, so that 20 players
(a million coalitions) take a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import factorial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Player = TypeVar("Player")


def coalitions(players: Sequence[Player]) -> Iterator[frozenset[Player]]:
    """All coalitions, the empty one first and the whole team last."""
    for size in range(len(players) + 1):
        for members in combinations(players, size):
            yield frozenset(members)


def shapley_values(players: Sequence[Player], value: Mapping[frozenset[Player], float]) -> dict[Player, float]:
    """φ of every player. Raises KeyError where a coalition has no value."""
    return dict(zip(players, shapley_of_masks(values_by_mask(players, value)).tolist(), strict=True))


def values_by_mask(players: Sequence[Player], value: Mapping[frozenset[Player], float]) -> NDArray[np.float64]:
    """The values of all 2^n coalitions; bit i of the index says whether player i is in. Raises KeyError."""
    by_mask = np.empty(1 << len(players))
    for mask in range(1 << len(players)):
        by_mask[mask] = value[frozenset(p for place, p in enumerate(players) if mask >> place & 1)]
    return by_mask


def shapley_of_masks(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """φ of n players from the values of all 2^n coalitions; bit i of the index says whether player i is in."""
    n = len(value).bit_length() - 1
    if len(value) != 1 << n:
        raise ValueError(f"{len(value)} values are not those of all coalitions")
    masks = np.arange(len(value))
    weights = np.array([float(Fraction(factorial(k) * factorial(n - k - 1), factorial(n))) for k in range(n)])
    sizes = np.bitwise_count(masks)
    found = np.empty(n)
    for player in range(n):
        without = masks[masks >> player & 1 == 0]
        found[player] = (weights[sizes[without]] * (value[without | 1 << player] - value[without])).sum()
    return found
