"""The stated cooperation measures of a checkpoint: functions of sums over episodes; higher is more cooperation.

With w(S) = v(S) - v(∅), what a coalition earns beyond the baseline alone, and n agents:

    synergy_share     (w(N) - Σ w({i})) / w(N)      part of the return that exists only in company; 1 where nobody earns
                                                    anything alone, 0 where members add up, below 0 where they hinder
    least_needed      min_i (w(N) - w(N∖i)) / w(N)  what the team loses without the agent that it misses least
    made_together     share of rewarded deliveries with steps of two agents or more, fetching counted

Two more stand beside them for reading and are not used to tell whether cooperation fell, because they can go down while
a team learns to work together better: `constructive_handoffs` per delivery (loops and detours end) and `least_active`,
the share of steps in which the idlest agent does not idle (who is fast must wait).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.intervals import UNDEFINED, Estimate, Floats, Intervals
from potluck_audit.metrics.idle import KINDS, activities
from potluck_audit.metrics.interdependence import classify
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.soups import soup_work

Columns = Sequence[Floats]


@dataclass(frozen=True)
class CheckpointPlay:
    """What a checkpoint's coalitions earned, and the whole team's episodes with every step, on the same seeds."""

    round: int
    values: CoalitionValues
    team: EpisodeSet

    def earned(self, members: frozenset[str]) -> Floats:
        """w(S) by seed. Raises KeyError where the coalition was not played."""
        returns = self.values.returns
        empty = np.array(returns.get(frozenset(), (0.0,) * len(self.values.seeds)), float)
        earned: Floats = np.array(returns[members], float) - empty
        return earned


@dataclass(frozen=True)
class Measure:
    """A ratio of sums over episodes."""

    name: str
    unit: str
    margin: float
    """A smaller change is no change."""
    columns: Callable[[CheckpointPlay], Columns | None]
    """One number an episode in each; None where the records tell nothing of the kind."""
    statistic: Callable[..., Any]
    """Of the columns' sums; NaN where it is undefined."""
    gates: bool = True
    """Whether its fall counts as a fall of cooperation."""

    def estimate(self, play: CheckpointPlay, intervals: Intervals) -> Estimate:
        columns = self.columns(play)
        return UNDEFINED if columns is None else intervals.of_sums(self.statistic, *columns)


def _synergy(play: CheckpointPlay) -> Columns:
    alone = [play.earned(frozenset({p})) for p in play.values.players]
    return [play.earned(play.values.everyone), np.sum(alone, axis=0)]


def _needed(play: CheckpointPlay) -> Columns:
    team = play.earned(play.values.everyone)
    return [team, *(team - play.earned(play.values.everyone - {p}) for p in play.values.players)]


def _together(play: CheckpointPlay) -> Columns | None:
    work = [soup_work(e) for e in play.team.episodes]
    mixed = [float(sum(len(set(one.by("chain"))) > 1 for one in soups)) for soups in work]
    return _told(play, [np.array(mixed), np.array([float(len(soups)) for soups in work])])


def _constructive(play: CheckpointPlay) -> Columns | None:
    found = [float(sum(kind == "constructive" for _, kind in classify(e))) for e in play.team.episodes]
    return _told(play, [np.array(found), np.array([float(len(soup_work(e))) for e in play.team.episodes])])


def _active(play: CheckpointPlay) -> Columns | None:
    columns = []
    for seat in range(len(play.team.agents)):
        counts = [activities(e, seat) for e in play.team.episodes]
        totals = np.array([float(c.total()) for c in counts])
        if not totals.all():
            return None
        idle = np.array([float(sum(c[kind] for kind in KINDS.values())) for c in counts])
        columns += [totals - idle, totals]
    return columns


def _told(play: CheckpointPlay, columns: Columns) -> Columns | None:
    return columns if any(e.events for e in play.team.episodes) else None


def _share(part: Any, whole: Any) -> Any:
    """Undefined unless there is something to share."""
    return np.where(np.asarray(whole) > 0, part / np.where(np.asarray(whole) > 0, whole, 1.0), np.nan)


def _least(*sums: Any) -> Any:
    shares = [_share(active, total) for active, total in zip(sums[::2], sums[1::2], strict=True)]
    return np.minimum.reduce(shares)


MEASURES = (
    Measure("synergy_share", "share of return", 0.2, _synergy, lambda team, alone: _share(team - alone, team)),
    Measure("least_needed", "share of return", 0.1, _needed, lambda team, *lost: _share(np.minimum.reduce(lost), team)),
    Measure("made_together", "share of deliveries", 0.2, _together, _share),
    Measure("constructive_handoffs", "per delivery", 0.5, _constructive, _share, gates=False),
    Measure("least_active", "share of steps", 0.2, _active, _least, gates=False),
)


def measure_rows(play: CheckpointPlay, set_name: str, intervals: Intervals) -> list[Metric]:
    """All measures of a checkpoint; what its records do not tell is undefined."""
    return [Metric(m.name, set_name, m.estimate(play, intervals), unit=m.unit) for m in MEASURES]
