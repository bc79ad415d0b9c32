"""Sampled Shapley values: the mean marginal contribution over random orders of joining, drawn as antithetic pairs.

    φ̂_i = (1/M) Σ_m [v(P_i^m ∪ i) - v(P_i^m)],      P_i^m = those who join before i in the m-th order

Every order is followed by its reverse (Mitchell et al. 2022, arXiv:2104.12199): who joins early in one joins late in
the other, which lowers the variance and keeps the estimate unbiased. The pairs are independent and the orders of a pair
are not: a standard error counts pairs, s / sqrt(pairs). Along one order the marginals telescope, so that they sum to
v(N) - v(∅) exactly; that is checked for every order, since a mix-up of player and place breaks it.

A player whose pairs all agree is not known without error: who decides one order in a thousand looks like nobody. As if
one further pair had differed by the largest contribution seen, its standard error is that contribution by pairs + 1.

A game's value here is a vector, one number an episode (or one number alone). Two errors add up: few orders, and few
episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from potluck_audit.shapley import Player

Floats = NDArray[np.float64]
EFFICIENT = 1e-9
"""Relative to the largest value of the game."""


class NotEfficient(ValueError):
    """The marginals of an order do not sum to v(N) - v(∅)."""


def orders(players: Sequence[Player], seed: int) -> Iterator[tuple[Player, ...]]:
    """Orders of joining without end: a random one, its reverse, another random one, …"""
    generator = np.random.default_rng(seed)
    while True:
        order = tuple(players[place] for place in generator.permutation(len(players)))
        yield order
        yield order[::-1]


def prefixes(order: Sequence[Player]) -> list[frozenset[Player]]:
    """The coalitions of an order, from nobody to everybody."""
    return [frozenset(order[:size]) for size in range(len(order) + 1)]


def orders_within(players: Sequence[Player], budget: int, seed: int, most: int = 5_000) -> list[tuple[Player, ...]]:
    """As many antithetic pairs as need at most `budget` different coalitions, and at most `most` orders.

    The sequence ends at the first pair that does not fit, so that the choice of orders depends on no value. Empty where
    not even one pair fits.
    """
    chosen: list[tuple[Player, ...]] = []
    needed: set[frozenset[Player]] = set()
    drawn = orders(players, seed)
    while len(chosen) + 2 <= most:
        pair = [next(drawn), next(drawn)]
        wider = needed.union(*(prefixes(order) for order in pair))
        if len(wider) > budget:
            break
        needed = wider
        chosen += pair
    return chosen


@dataclass(frozen=True)
class Sampled(Generic[Player]):
    """Estimates from antithetic pairs. `by_pair` has the axes (pair, player, episode)."""

    players: tuple[Player, ...]
    by_pair: Floats

    @property
    def pairs(self) -> int:
        return int(self.by_pair.shape[0])

    @property
    def values(self) -> dict[Player, float]:
        return dict(zip(self.players, self.by_pair.mean(axis=(0, 2)).tolist(), strict=True))

    @property
    def errors(self) -> dict[Player, float | None]:
        """Standard errors from the choice of orders, the episodes as given. None with one pair."""
        if self.pairs < 2:
            return dict.fromkeys(self.players)
        means = self.by_pair.mean(axis=2)
        alike = (means == means[0]).all(axis=0)
        spread = np.where(alike, np.abs(means).max() / (self.pairs + 1), means.std(axis=0, ddof=1) / sqrt(self.pairs))
        return dict(zip(self.players, spread.tolist(), strict=True))

    def interval(self, player: Player, confidence: float) -> tuple[float, float] | None:
        """Student's t interval of a player's value over orders and episodes; None with one pair.

        The variances of pair means and of episode means add up; what varies with both counts in either, so that the
        interval errs on the wide side. Degrees of freedom after Welch and Satterthwaite. Where the value of the game
        is one exact number (no episodes), only the orders count.
        """
        own = self.by_pair[:, self.players.index(player), :]
        error, episodes = self.errors[player], own.shape[1]
        if error is None:
            return None
        variances = [(error**2, self.pairs)]
        if episodes > 1:
            variances.append((float(own.mean(axis=0).var(ddof=1)) / episodes, episodes))
        total = sum(variance for variance, _ in variances)
        centre = float(own.mean())
        if total == 0:
            return centre, centre
        from scipy import stats  # two seconds of CPU: not before there is something to measure

        freedom = total**2 / sum(variance**2 / (count - 1) for variance, count in variances)
        half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * sqrt(total)
        return centre - half, centre + half


def sampled_shapley(
    drawn: Sequence[Sequence[Player]], players: Sequence[Player], value: Callable[[frozenset[Player]], Floats]
) -> Sampled[Player]:
    """Estimates from whole antithetic pairs of orders. Raises NotEfficient."""
    if not drawn or len(drawn) % 2:
        raise ValueError(f"{len(drawn)} orders are no whole antithetic pairs")
    seats = {player: seat for seat, player in enumerate(players)}
    marginals = np.stack([_marginals(order, seats, value) for order in drawn])
    return Sampled(tuple(players), marginals.reshape(len(drawn) // 2, 2, *marginals.shape[1:]).mean(axis=1))


def _marginals(
    order: Sequence[Player], seats: dict[Player, int], value: Callable[[frozenset[Player]], Floats]
) -> Floats:
    """What each player adds when it joins, by the player's seat and not by its place in the order."""
    worth = np.stack([np.atleast_1d(np.asarray(value(members), float)) for members in prefixes(order)])
    added = np.empty((len(seats), worth.shape[1]))
    for place, player in enumerate(order):
        added[seats[player]] = worth[place + 1] - worth[place]
    gap = np.abs(added.sum(axis=0) - (worth[-1] - worth[0])).max()
    if not gap <= EFFICIENT * max(1.0, float(np.abs(worth).max())):
        raise NotEfficient(f"the marginals of an order miss v(N) - v(∅) by {gap}")
    return added
