"""Where the success curve falls below tau for good: binary search where it is monotone, else a linear scan.

A prefix is alive where P(success | prefix) >= tau, else broken. Binary search assumes "once broken, always broken".
That is checked first: at evenly spaced prefixes the states must be alive, then broken, and no estimate may rise
significantly (one prefix's lower limit above an earlier one's upper limit). A linear scan needs no such assumption and
alone finds repairs: broken prefixes that become alive again. The decisive fall is the last one, since every earlier one
was repaired.

A curve may cross tau over several decisions. Next to the crossing more plays are made, and the window is widened until
both its ends are sure; of the falls in it the largest is taken, and its certainty is the posterior probability that it
is the largest and that the ends lie on their sides of tau.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from potluck_audit.blame.curve import Curve, Point
from potluck_audit.blame.settings import LocateSettings

REACH = 6
"""Boundaries by which a window is widened to either side at most."""
DRAWS = 4_000

Window = tuple[int, int]
"""Boundaries of two prefixes between which the curve passes tau."""


@dataclass(frozen=True)
class Fall:
    """Between prefix `boundary` and the next, the success probability passes tau."""

    boundary: int
    before: Point
    after: Point
    certainty: float


@dataclass(frozen=True)
class Search:
    """What was found. `scan` is what was done in the end."""

    scan: str
    monotone: bool
    falls: tuple[Fall, ...]
    """In order of time; the last one decides."""
    rises: tuple[Fall, ...]
    """Repairs; none are looked for by binary search."""


class FromTheStart(Exception):
    """The team does not reach the threshold even from the start."""

    def __init__(self, point: Point) -> None:
        self.point = point


async def search(curve: Curve, settings: LocateSettings) -> Search:
    """Raises FromTheStart or OutOfBudget."""
    places = np.unique(np.linspace(0, curve.last, settings.checkpoints).round().astype(int)).tolist()
    checks = await curve.at(places, settings.continuations)
    if checks[0].p < settings.tau:
        checks[0] = await _reachable(curve, settings)
    monotone = is_monotone(checks, settings)
    if settings.scan == "linear" or (settings.scan == "auto" and not monotone):
        points = await curve.at(range(curve.last + 1), settings.continuations)
        falls, rises = crossings(points, settings)
        return Search(
            "linear",
            monotone,
            tuple([await settle(curve, window, settings) for window in falls]),
            tuple([await settle(curve, window, settings, rising=True) for window in rises]),
        )
    low = max(p.boundary for p in checks if p.p >= settings.tau)
    high = min(p.boundary for p in checks if p.boundary > low and p.p < settings.tau)
    while high - low > 1:
        middle = (low + high) // 2
        [point] = await curve.at([middle], settings.continuations)
        low, high = (middle, high) if point.p >= settings.tau else (low, middle)
    return Search("binary", monotone, (await settle(curve, (low, high), settings),), ())


def is_monotone(points: Sequence[Point], settings: LocateSettings) -> bool:
    """Whether states go from alive to broken once and no estimate rises significantly."""
    alive = [p.p >= settings.tau for p in points]
    if any(later and not earlier for earlier, later in pairwise(alive)):
        return False
    limits = [p.interval(settings.confidence) for p in points]
    lowest_high = 1.0
    for limit in limits:
        if (limit.low or 0.0) > lowest_high:
            return False
        lowest_high = min(lowest_high, 1.0 if limit.high is None else limit.high)
    return True


def crossings(points: Sequence[Point], settings: LocateSettings) -> tuple[list[Window], list[Window]]:
    """Windows in which the curve goes from surely alive to surely broken, and from broken to alive.

    A point counts as sure where the posterior probability of its side of tau is at least `certainty`; those between
    belong to the window, so that an estimate that wavers about tau is one crossing and not many.
    """
    falls: list[Window] = []
    rises: list[Window] = []
    alive, since = True, points[0].boundary
    for point in points[1:]:
        chance = point.alive_chance(settings.tau)
        if 1 - settings.certainty < chance < settings.certainty:
            continue
        if (chance >= settings.certainty) != alive:
            (falls if alive else rises).append((since, point.boundary))
            alive = not alive
        since = point.boundary
    return falls, rises


async def _reachable(curve: Curve, settings: LocateSettings) -> Point:
    [start] = await curve.at([0], settings.most)
    if start.p < settings.tau:
        raise FromTheStart(start)
    return start


async def settle(curve: Curve, window: Window, settings: LocateSettings, *, rising: bool = False) -> Fall:
    """The step of a crossing, with more plays around it."""
    first, last = low, high = window
    sure = (1 + settings.certainty) / 2
    plays = settings.continuations
    while True:
        ends = await curve.at([low, high], plays)
        chances = [p.alive_chance(settings.tau) for p in ends]
        wrong = [1 - c if side else c for c, side in zip(chances, (not rising, rising), strict=True)]
        if all(1 - w >= sure for w in wrong):
            break
        if plays < settings.most:
            plays = min(2 * plays, settings.most)
            continue
        wider = (
            low - (1 - wrong[0] < sure and low > max(0, first - REACH)),
            high + (1 - wrong[1] < sure and high < min(curve.last, last + REACH)),
        )
        if wider == (low, high):
            break
        low, high = wider
    points = await curve.at(range(low, high + 1), plays)
    place, share = largest_step(points, rising)
    certainty = share * (1 - wrong[0]) * (1 - wrong[1])
    return Fall(points[place].boundary, points[place], points[place + 1], certainty)


def largest_step(window: Sequence[Point], rising: bool) -> tuple[int, float]:
    """Place of the largest step of a window, and the posterior probability that it is the largest (Jeffreys' prior)."""
    sign = 1.0 if rising else -1.0
    steps = [sign * (after.p - before.p) for before, after in pairwise(window)]
    place = int(np.argmax(steps))
    if len(steps) == 1:
        return place, 1.0
    rng = np.random.default_rng(0)
    drawn = np.stack(
        [
            rng.beta(p.successes + 0.5, p.plays - p.successes + 0.5, DRAWS) if p.plays else np.zeros(DRAWS)
            for p in window
        ]
    )
    best = np.argmax(sign * np.diff(drawn, axis=0), axis=0)
    return place, float((best == place).mean())
