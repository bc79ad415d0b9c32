"""Exact Shapley values of a cooperative game given as the value of every coalition.

    φ_i = Σ_{S ∌ i} |S|! (n - |S| - 1)! / n! · [v(S ∪ {i}) - v(S)],      Σ φ_i = v(N) - v(∅)

A coalition is a frozenset of players. Weights are exact fractions until they meet the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import factorial, fsum
from typing import TypeVar

Player = TypeVar("Player")


def coalitions(players: Sequence[Player]) -> Iterator[frozenset[Player]]:
    """All coalitions, the empty one first and the whole team last."""
    for size in range(len(players) + 1):
        for members in combinations(players, size):
            yield frozenset(members)


def shapley_values(players: Sequence[Player], value: Mapping[frozenset[Player], float]) -> dict[Player, float]:
    """φ of every player. Raises KeyError where a coalition has no value."""
    n = len(players)
    weights = [float(Fraction(factorial(k) * factorial(n - k - 1), factorial(n))) for k in range(n)]
    return {
        player: fsum(
            weights[len(others)] * (value[others | {player}] - value[others])
            for others in coalitions([p for p in players if p != player])
        )
        for player in players
    }
