"""Pairs of players: the Shapley interaction index (Grabisch & Roubens 1999, Int. J. Game Theory 28:547).

    I_ij = Σ_{S ∌ i, j} |S|! (n - |S| - 2)! / (n - 1)! · [v(S ∪ ij) - v(S ∪ i) - v(S ∪ j) + v(S)]

Above 0 the two are worth more together than apart (complements), below 0 less (substitutes). For two players it is
v(12) - v(1) - v(2) + v(∅). The library `shapiq` computes the same index; it is not a dependency because it brings
pandas, scikit-learn and matplotlib along. The tests compare with numbers that it gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from potluck_audit.shapley import Player, values_by_mask


def pair_interactions(
    players: Sequence[Player], value: Mapping[frozenset[Player], float]
) -> dict[tuple[Player, Player], float]:
    """I of every pair, in the players' order. Raises KeyError where a coalition has no value."""
    found = interactions_of_masks(values_by_mask(players, value))
    return {(players[i], players[j]): index for (i, j), index in found.items()}


def interactions_of_masks(value: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """I of every pair from the values of all 2^n coalitions; bit i of the index says whether player i is in."""
    n = len(value).bit_length() - 1
    if len(value) != 1 << n:
        raise ValueError(f"{len(value)} values are not those of all coalitions")
    masks = np.arange(len(value))
    weights = np.array([float(Fraction(factorial(k) * factorial(n - k - 2), factorial(n - 1))) for k in range(n - 1)])
    sizes = np.bitwise_count(masks)
    found = {}
    for i, j in combinations(range(n), 2):
        one, other = 1 << i, 1 << j
        without = masks[masks & (one | other) == 0]
        surplus = value[without | one | other] - value[without | one] - value[without | other] + value[without]
        found[i, j] = float((weights[sizes[without]] * surplus).sum())
    return found
