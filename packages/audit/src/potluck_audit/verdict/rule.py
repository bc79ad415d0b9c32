"""The rule that turns intervals into a verdict. Its reasons are in `docs/audit/verdict.md`.

With w(S) = v(S) - v(∅), necessity_i = w(N) - w(N∖i), synergy = w(N) - Σ w({i}), and simultaneous intervals (Student's t
over episodes paired by seed, Bonferroni over the agents and the synergy):

    a passenger     the upper end of its necessity lies below `margin` of an equal share, w(N) / n
    needed          the lower end of its necessity lies above 0

    1  w(N) is not above 0                                        undecided
    2  a passenger idles in more than half of its steps           free-riding
    3  all but one are passengers, and that one is needed         carried by one
    4  all are passengers: anybody's absence is made up for       parallel
    5  some are passengers, and two or more others are needed     free-riding
    6  no passenger, synergy above 0, everybody needed            cooperative
    7  no passenger, synergy below `margin` of an equal share     parallel
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

MARGIN = 0.25
"""Of an equal share: who is worth less is a passenger."""
IDLE = 0.5


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
    team = f"the team earns {_words(found.earned)} {unit} beyond the baseline"
    if found.earned.low is None:
        return Verdict.UNDECIDED, f"{team}: one episode has no interval"
    if not found.earned.low > 0:
        return Verdict.UNDECIDED, f"{team}: that could be nothing"
    least = margin * found.share
    passengers = {p: e for p, e in found.necessity.items() if e.high is not None and e.high < least}
    needed = [p for p, e in found.necessity.items() if e.low is not None and e.low > 0]
    if passengers:
        return _with_passengers(found, passengers, needed)
    synergy = f"synergy {_words(found.synergy)}"
    low, high = found.synergy.low, found.synergy.high
    if low is not None and low > 0 and len(needed) == len(found.necessity):
        worth = "; ".join(f"without {p} it loses {_words(e)}" for p, e in found.necessity.items())
        return Verdict.COOPERATIVE, f"{synergy}; {worth}"
    if high is not None and high < least:
        return Verdict.PARALLEL, f"{synergy}: members alone add up to what the team earns, and everybody counts"
    return Verdict.UNDECIDED, f"{synergy}{_more(found, least, needed)}"


def _with_passengers(found: Findings, passengers: dict[str, Estimate], needed: list[str]) -> tuple[Verdict, str]:
    missed = "; ".join(f"without {p} the team loses {_words(e)}" for p, e in passengers.items())
    idlers = [p for p in passengers if (low := found.idle[p].low) is not None and low > IDLE]
    if idlers:
        idle = "; ".join(f"{p} idles in {found.idle[p].value:.0%} of its steps" for p in idlers)
        return Verdict.FREE_RIDING, f"{missed}; {idle}"
    others = [p for p in found.necessity if p not in passengers]
    if not others:
        return Verdict.PARALLEL, f"{missed}: anybody's absence is made up for"
    if len(others) == 1 and others == needed:
        lost = found.necessity[others[0]]
        return Verdict.CARRIED, f"{missed}; without {others[0]} it loses {_words(lost)}"
    if len(needed) > 1:
        return Verdict.FREE_RIDING, f"{missed}; needed are {', '.join(needed)}"
    unsure = ", ".join(p for p in others if p not in needed)
    return Verdict.UNDECIDED, f"{missed}; whether {unsure} is needed is open"


def _more(found: Findings, least: float, needed: list[str]) -> str:
    """What is open, and how many episodes might settle it."""
    unsure = [p for p in found.necessity if p not in needed]
    open_questions = ["whether it is above 0" if (found.synergy.low or 0) <= 0 else ""]
    open_questions += [f"whether {p} is needed ({_words(found.necessity[p])})" for p in unsure]
    told = " and ".join(q for q in open_questions if q)
    value, low = found.synergy.value, found.synergy.low
    if value is None or low is None or not value > low:
        return f": open is {told}"
    distance = max(value, abs(least - value))
    wanted = ceil(found.synergy.episodes * ((value - low) / distance) ** 2) if distance > 0 else 0
    more = f"; about {wanted} episodes might tell" if wanted > found.synergy.episodes else ""
    return f": open is {told}{more}"


def _words(estimate: Estimate) -> str:
    if estimate.value is None:
        return "an undefined amount"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


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
