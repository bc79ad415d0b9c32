"""The rule that turns intervals into a verdict. Its reasons are in `docs/audit/verdict.md`.

With w(S) = v(S) - v(∅), necessity_i = w(N) - w(N∖i), synergy = w(N) - Σ w({i}), a bar of `margin` of an equal share,
margin · w(N) / n, and simultaneous intervals (Student's t over episodes paired by seed, Bonferroni over the agents and
the synergy):

    a passenger     the upper end of its necessity lies below the bar
    counts          the lower end of its necessity lies above the bar

    1  w(N) is not above 0                                        undecided
    2  a passenger idles in more than half of its steps           free-riding
    3  all but one are passengers, and that one counts            carried by one
    4  all are passengers: anybody's absence is made up for       parallel
    5  some are passengers, and two or more others count          free-riding
    6  everybody counts, and synergy is above 0                   cooperative
    7  everybody counts, and synergy is below the bar             parallel
    8  anything else                                              undecided

The first line that fits is the verdict.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np

from potluck_audit.intervals import UNDEFINED, Estimate, Intervals
from potluck_audit.metrics.idle import KINDS, activities
from potluck_audit.metrics.metric import Metric
from potluck_audit.verdict.measures import CheckpointPlay, measure_rows
from potluck_audit.verdict.verdict import CheckpointVerdict, Verdict

MARGIN = 0.5
"""Of an equal share: who is worth less is a passenger."""
IDLE = 0.5
UNKNOWN = "an undefined amount"


class Findings(NamedTuple):
    """The intervals that the rule reads; all earned beyond the baseline alone."""

    earned: Estimate
    necessity: dict[str, Estimate]
    synergy: Estimate
    idle: dict[str, Estimate]
    share: float
    """w(N) / n."""


def set_name(round_number: int) -> str:
    """The name of a checkpoint's metrics."""
    return f"checkpoint/{round_number}"


def judge(play: CheckpointPlay, intervals: Intervals, margin: float = MARGIN) -> CheckpointVerdict:
    """The verdict on a checkpoint with its metrics."""
    found = findings(play, intervals)
    verdict, reason = decide(found, margin, play.team.unit)
    return CheckpointVerdict(
        play.round, verdict, reason, _rows(play, found, intervals), len(play.values.seeds), play.values.baseline
    )


def findings(play: CheckpointPlay, intervals: Intervals) -> Findings:
    players, everyone = play.values.players, play.values.everyone
    together = replace(intervals, confidence=1 - (1 - intervals.confidence) / (len(players) + 1))
    team = play.earned(everyone)
    lost = {p: together.mean_t(list(team - play.earned(everyone - {p}))) for p in players}
    synergy = team - np.sum([play.earned(frozenset({p})) for p in players], axis=0)
    idle = {p: _idle(play, seat, together) for seat, p in enumerate(players)}
    return Findings(
        together.mean_t(list(team)), lost, together.mean_t(list(synergy)), idle, float(team.mean()) / len(players)
    )


def _idle(play: CheckpointPlay, seat: int, intervals: Intervals) -> Estimate:
    counts = [activities(e, seat) for e in play.team.episodes]
    if not counts:
        return UNDEFINED
    idle = [float(sum(c[kind] for kind in KINDS.values())) for c in counts]
    return intervals.ratio(idle, [float(c.total()) for c in counts])


def decide(found: Findings, margin: float, unit: str = "reward") -> tuple[Verdict, str]:
    """The first line of the rule that fits, and why."""
    team = f"the team earns {found.earned.text(UNKNOWN)} {unit} beyond the baseline"
    if found.earned.low is None:
        return Verdict.UNDECIDED, f"{team}: one episode has no interval"
    if not found.earned.low > 0:
        return Verdict.UNDECIDED, f"{team}: that could be nothing"
    bar = margin * found.share
    passengers = {p: e for p, e in found.necessity.items() if e.high is not None and e.high < bar}
    counting = [p for p, e in found.necessity.items() if e.low is not None and e.low > bar]
    if passengers:
        return _with_passengers(found, passengers, counting)
    synergy, worth = f"synergy {found.synergy.text(UNKNOWN)}", _losses(found.necessity)
    low, high = found.synergy.low, found.synergy.high
    if len(counting) == len(found.necessity):
        if low is not None and low > 0:
            return Verdict.COOPERATIVE, f"{synergy}; {worth}"
        if high is not None and high < bar:
            return Verdict.PARALLEL, f"{synergy}: members alone add up to what the team earns; {worth}"
    return Verdict.UNDECIDED, f"{synergy}; {worth}; {_open(found, bar, counting)}"


def _losses(necessity: dict[str, Estimate]) -> str:
    return "; ".join(f"without {p} the team loses {e.text(UNKNOWN)}" for p, e in necessity.items())


def _with_passengers(found: Findings, passengers: dict[str, Estimate], counting: list[str]) -> tuple[Verdict, str]:
    missed = _losses(passengers)
    idlers = [p for p in passengers if (low := found.idle[p].low) is not None and low > IDLE]
    if idlers:
        idle = "; ".join(f"{p} idles in {found.idle[p].value:.0%} of its steps" for p in idlers)
        return Verdict.FREE_RIDING, f"{missed}; {idle}"
    others = [p for p in found.necessity if p not in passengers]
    if not others:
        return Verdict.PARALLEL, f"{missed}: anybody's absence is made up for"
    if len(others) == 1 and others == counting:
        return Verdict.CARRIED, _losses(found.necessity)
    if len(counting) > 1:
        return Verdict.FREE_RIDING, f"{missed}; those who count are {', '.join(counting)}"
    unsure = ", ".join(p for p in others if p not in counting)
    return Verdict.UNDECIDED, f"{missed}; whether {unsure} counts is open"


def _open(found: Findings, bar: float, counting: list[str]) -> str:
    """What is open, and how many episodes might settle it if the estimates stay."""
    questions = [(f"{p} counts (above {bar:.2f})", e, bar) for p, e in found.necessity.items() if p not in counting]
    questions = questions or [("synergy is above 0", found.synergy, 0.0)]
    wanted = [_episodes(estimate, to) for _, estimate, to in questions]
    told = f"open is whether {' and whether '.join(text for text, *_ in questions)}"
    known = [count for count in wanted if count is not None]
    return told + (f"; about {max(known)} episodes might tell" if known and max(known) > found.earned.episodes else "")


def _episodes(estimate: Estimate, to: float) -> int | None:
    """Episodes at which an interval as wide as this one would end before the number; None where no number is enough."""
    value, low = estimate.value, estimate.low
    if value is None or low is None or value == to:
        return None
    return ceil(estimate.episodes * ((value - low) / (value - to)) ** 2)


def _rows(play: CheckpointPlay, found: Findings, intervals: Intervals) -> list[Metric]:
    name, unit, baseline = set_name(play.round), play.team.unit, play.values.baseline
    ordered = sorted(play.values.returns, key=lambda c: (len(c), play.values.name(c)))
    rows = [Metric("return", name, intervals.mean(list(play.values.returns[play.values.everyone])), unit=unit)]
    for members in ordered:
        estimate = intervals.mean(list(play.values.returns[members]))
        rows.append(Metric("coalition", name, estimate, key=play.values.name(members), unit=unit))
        if len(members) == 1:
            rows.append(Metric("solo", name, estimate, next(iter(members)), baseline, unit))
    rows.append(Metric("earned", name, found.earned, key=baseline, unit=unit))
    rows.append(Metric("synergy", name, found.synergy, key=baseline, unit=unit))
    rows += [Metric("necessity", name, e, p, baseline, unit) for p, e in found.necessity.items()]
    rows += [Metric("idle_share", name, e, p, "all", "share") for p, e in found.idle.items()]
    return rows + measure_rows(play, name, intervals)
