"""Who earned the team's return: Shapley values over coalitions, seed by seed on common random numbers.

Exact where the budget allows all 2^n coalitions, otherwise sampled orders of joining (`permutations`). Either way the
credits of a set sum to v(N) - v(∅) to 1e-9; v(∅), what the baseline alone earns, is reported and belongs to nobody.
Credit can be negative and is shown as such. Intervals are over episodes, and over orders where those were sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np

from potluck_audit.counterfactual.coalitions import Players, complete
from potluck_audit.counterfactual.values import Coalition, CoalitionValues
from potluck_audit.errors import Diverged, InvalidRequest, Unsupported
from potluck_audit.interactions import pair_interactions
from potluck_audit.intervals import Estimate, Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.permutations import NotEfficient, Sampled, orders_within, prefixes, sampled_shapley
from potluck_audit.progress import OnStage
from potluck_audit.shapley import coalitions, shapley_values

CONSERVED = 1e-9
MIN_PAIRS = 2
"""Antithetic pairs of orders below which there is no standard error."""

Method = Literal["exact", "sampled"]


@dataclass(frozen=True)
class Budget:
    """How much may be played."""

    coalitions: int = 128
    """Different coalitions, nobody and everybody among them: 128 are all those of seven agents."""
    seed: int = 0
    """Of sampled orders."""


@dataclass(frozen=True)
class Credit:
    """A set's credits."""

    credits: Sequence[Metric]
    """`credit`, per agent; the baseline is the key."""
    empty_value: float
    team_value: float
    baseline: str = "noop"
    method: Method = "exact"
    coalitions: int = 0
    """Different coalitions behind the credits."""
    orders: int = 0
    """Sampled orders of joining; 0 where credits are exact."""
    errors: Sequence[Metric] = ()
    """`credit_standard_error`, per agent, from the choice of orders: 0 where credits are exact."""
    interactions: Sequence[Metric] = ()
    """`interaction`, per pair (agent "a+b"); none where credits are sampled."""
    values: Sequence[Metric] = ()
    """`coalition_value`, per coalition that was played (agent "a+b", empty for nobody); the baseline is the key."""
    notes: Sequence[str] = ()

    @property
    def to_share(self) -> float:
        """v(N) - v(∅), what the credits sum to."""
        return self.team_value - self.empty_value

    @property
    def metrics(self) -> list[Metric]:
        """All rows but the values of coalitions."""
        return [*self.credits, *self.errors, *self.interactions]


def plan(players: Sequence[str], budget: Budget) -> tuple[list[Coalition], list[tuple[str, ...]]]:
    """The coalitions to play, and the orders that they come from; no orders where all coalitions fit the budget.

    Raises InvalidRequest where not even two antithetic pairs of orders fit.
    """
    if 1 << len(players) <= budget.coalitions:
        return list(coalitions(players)), []
    orders = orders_within(players, budget.coalitions, budget.seed)
    if len(orders) < 2 * MIN_PAIRS:
        least = 2 + 2 * MIN_PAIRS * (len(players) - 1)
        raise InvalidRequest(
            "budget",
            f"{budget.coalitions} coalitions are too few to sample the credit of {len(players)} agents",
            f"allow {min(least, 1 << len(players))} or more",
        )
    needed = dict.fromkeys(members for order in orders for members in prefixes(order))
    return list(needed), orders


async def attribute(
    values: CoalitionValues,
    team: EpisodeSet,
    players: Players,
    intervals: Intervals,
    on_stage: OnStage,
    budget: Budget | None = None,
) -> Credit:
    """Plays the coalitions that are missing and shares the return."""
    if not values.seeds:
        raise Unsupported(
            f"no episode of {team.name} holds a return, so that there is nothing to share",
            "evaluate the team again, or audit another episode set",
        )
    wanted, orders = plan(values.players, budget or Budget())
    full = await complete(values, team, wanted, players, on_stage)
    if orders:
        return sampled_credit(full, orders, team.name, team.unit, intervals)
    return credit(full, team.name, team.unit, intervals)


def is_complete(values: CoalitionValues) -> bool:
    return all(c in values.returns for c in coalitions(values.players))


def credit(values: CoalitionValues, set_name: str, unit: str, intervals: Intervals) -> Credit:
    """Exact credits from the returns of all coalitions."""
    games = [{members: r[at] for members, r in values.returns.items()} for at in range(len(values.seeds))]
    by_seed = [shapley_values(values.players, game) for game in games]
    credits = [
        Metric("credit", set_name, intervals.mean([phi[p] for phi in by_seed]), p, values.baseline, unit)
        for p in values.players
    ]
    pairs = [pair_interactions(values.players, game) for game in games] if len(values.players) > 1 else []
    interactions = [
        Metric("interaction", set_name, intervals.mean([one[i, j] for one in pairs]), f"{i}+{j}", values.baseline, unit)
        for i, j in (pairs[0] if pairs else ())
    ]
    errors = [_error(set_name, p, 0.0, values, unit) for p in values.players]
    return _conserved(
        Credit(
            credits,
            values.mean(frozenset()),
            values.mean(values.everyone),
            values.baseline,
            coalitions=len(values.returns),
            errors=errors,
            interactions=interactions,
            values=_values(values, set_name, unit, intervals),
            notes=_notes(values, set_name),
        )
    )


def sampled_credit(
    values: CoalitionValues, orders: Sequence[tuple[str, ...]], set_name: str, unit: str, intervals: Intervals
) -> Credit:
    """Credits from sampled orders of joining. Raises Diverged where an order's marginals do not add up."""
    try:
        found = sampled_shapley(orders, values.players, lambda members: np.asarray(values.returns[members], float))
    except NotEfficient as broken:
        raise Diverged(str(broken), "report this as a defect") from broken
    needed = {members for order in orders for members in prefixes(order)}
    notes = [
        *_notes(values, set_name),
        f"Credit is sampled: {len(orders)} orders of joining in {found.pairs} antithetic pairs, {len(needed)} of "
        f"{1 << len(values.players)} coalitions.",
    ]
    return _conserved(
        Credit(
            [Metric("credit", set_name, _sampled(found, p, values, intervals), p, values.baseline, unit)
             for p in values.players],
            values.mean(frozenset()),
            values.mean(values.everyone),
            values.baseline,
            method="sampled",
            coalitions=len(needed),
            orders=len(orders),
            errors=[_error(set_name, p, found.errors[p], values, unit) for p in values.players],
            values=_values(values, set_name, unit, intervals),
            notes=notes,
        )
    )  # fmt: skip


def _sampled(found: Sampled[str], player: str, values: CoalitionValues, intervals: Intervals) -> Estimate:
    episodes = len(values.seeds)
    low, high = (found.interval(player, intervals.confidence) if episodes > 1 else None) or (None, None)
    return Estimate(found.values[player], low, high, episodes)


def _error(set_name: str, player: str, error: float | None, values: CoalitionValues, unit: str) -> Metric:
    estimate = Estimate(error, None, None, len(values.seeds))
    return Metric("credit_standard_error", set_name, estimate, player, values.baseline, unit)


def _values(values: CoalitionValues, set_name: str, unit: str, intervals: Intervals) -> list[Metric]:
    ordered = sorted(values.returns, key=lambda members: (len(members), values.name(members)))
    return [
        Metric("coalition_value", set_name, intervals.mean(values.returns[c]), values.name(c), values.baseline, unit)
        for c in ordered
    ]


def _notes(values: CoalitionValues, set_name: str) -> list[str]:
    notes = []
    if values.left_out:
        whole = values.left_out + len(values.seeds)
        notes.append(f"{values.left_out} of {whole} episodes of {set_name} hold no return and have no share in credit.")
    if len(values.seeds) == 1:
        notes.append(f"{set_name} has one episode with a return: its credit has no intervals.")
    if not any(any(r) for r in values.returns.values()):
        notes.append(f"Nobody earned anything in {set_name}: credit is 0 for all, and no share of it is defined.")
    return notes


def _conserved(found: Credit) -> Credit:
    shared = fsum(m.estimate.value or 0.0 for m in found.credits)
    if not abs(shared - (found.team_value - found.empty_value)) <= CONSERVED:
        raise Diverged(
            f"credits sum to {shared!r} and not to {found.team_value - found.empty_value!r}", "report this as a defect"
        )
    return found
