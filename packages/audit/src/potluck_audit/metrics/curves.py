"""The learning curve: mean team return of each training round with Student's t interval over its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from potluck_audit.intervals import Estimate, Intervals
from potluck_audit.records import Episode


class CurvePoint(NamedTuple):
    """One round."""

    round: int
    estimate: Estimate


def running_mean(means: Sequence[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """Mean of the last `window` rounds at each round."""
    values = [value for _, value in means]
    recent = [values[max(0, i - window + 1) : i + 1] for i in range(len(values))]
    return [(number, sum(v) / len(v)) for (number, _), v in zip(means, recent, strict=True)]


def learning_curve(training: Sequence[Episode], intervals: Intervals) -> list[CurvePoint]:
    """Rounds in order; a round none of whose episodes has a return is left out."""
    rounds: dict[int, list[float | None]] = {}
    for episode in training:
        rounds.setdefault(episode.round, []).append(episode.team_return)
    points = (CurvePoint(number, intervals.mean_t(rounds[number])) for number in sorted(rounds))
    return [point for point in points if point.estimate.value is not None]
