"""Who earned the team's return: exact Shapley values over coalitions, seed by seed on common random numbers.

The credits of a set sum to v(N) - v(∅) to 1e-9; v(∅), what the baseline alone earns, is reported and belongs to
nobody. Credit can be negative and is shown as such. Its interval is over episodes (the values are exact, the seeds are
a sample).
"""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

from potluck_audit.counterfactual.coalitions import OnStage, Players, complete
from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.errors import Diverged, Unsupported
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.shapley import coalitions, shapley_values

MAX_EXACT = 7
CONSERVED = 1e-9


class Credit(NamedTuple):
    """A set's credits."""

    credits: list[Metric]
    empty_value: float
    team_value: float


async def attribute(
    values: CoalitionValues, team: EpisodeSet, players: Players, intervals: Intervals, on_stage: OnStage
) -> Credit:
    """Plays all coalitions that are missing and shares the return."""
    if len(values.players) > MAX_EXACT:
        raise Unsupported(
            f"exact credit is for at most {MAX_EXACT} agents and {team.name} has {len(values.players)}",
            "audit a smaller team; sampled credit is not built yet",
        )
    full = await complete(values, team, list(coalitions(values.players)), players, on_stage)
    return credit(full, team.name, team.unit, intervals)


def is_complete(values: CoalitionValues) -> bool:
    return all(c in values.returns for c in coalitions(values.players))


def credit(values: CoalitionValues, set_name: str, unit: str, intervals: Intervals) -> Credit:
    """Credits from the returns of all coalitions."""
    by_seed = [
        shapley_values(values.players, {members: r[at] for members, r in values.returns.items()})
        for at in range(len(values.seeds))
    ]
    metrics = [
        Metric("credit", set_name, intervals.mean([phi[p] for phi in by_seed]), p, values.baseline, unit)
        for p in values.players
    ]
    empty, team = values.mean(frozenset()), values.mean(values.everyone)
    shared = fsum(m.estimate.value or 0.0 for m in metrics)
    if abs(shared - (team - empty)) > CONSERVED:
        raise Diverged(f"credits sum to {shared!r} and not to {team - empty!r}", "report this as a defect")
    return Credit(metrics, empty, team)
