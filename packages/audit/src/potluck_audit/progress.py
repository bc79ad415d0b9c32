"""How far a long job is, and how long it may still take."""

from __future__ import annotations

import time
from collections.abc import Callable

OnStage = Callable[[str, int, int], None]
"""Told of (what is being done, units done, units in all)."""


class Clock:
    """Estimates the rest of a job from the units done since it began; what was found on disk takes no time."""

    def __init__(self, units: int, now: Callable[[], float] = time.monotonic) -> None:
        self._units = units
        self._now = now
        self._begun = now()

    def seconds_left(self, done: int) -> float | None:
        """None before the first unit is done."""
        return (self._now() - self._begun) / done * (self._units - done) if done else None

    def words(self, done: int) -> str:
        """Such as ", about 3 min left"; empty before the first unit is done."""
        left = self.seconds_left(done)
        if left is None:
            return ""
        for limit, size, unit in ((100, 1, "s"), (100 * 60, 60, "min")):
            if left < limit:
                return f", about {max(1, round(left / size))} {unit} left"
        return f", about {left / 3600:.1f} h left"
