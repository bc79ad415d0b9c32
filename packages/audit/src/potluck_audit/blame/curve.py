"""The success curve of an episode: P(success | its first b boundaries as recorded), estimated by branches.

All prefixes share their noise numbers, so that differences between them are not differences of luck. The prefix that
holds every boundary is the episode itself, whose outcome is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from potluck_audit.blame.branches import Branch, Branches
from potluck_audit.intervals import Estimate


@dataclass(frozen=True)
class Point:
    """One prefix. `plays` is 0 for the whole episode, whose outcome is known."""

    boundary: int
    successes: int
    plays: int

    @property
    def p(self) -> float:
        return self.successes / self.plays if self.plays else 0.0

    def interval(self, confidence: float) -> Estimate:
        """Clopper and Pearson's."""
        from potluck_audit.foreign.score import proportion

        return proportion(self.successes, self.plays, confidence) if self.plays else Estimate(0.0, 0.0, 0.0, 0)

    def alive_chance(self, tau: float) -> float:
        """P(p >= tau) under Jeffreys' prior."""
        if not self.plays:
            return 0.0
        from scipy import stats

        return float(stats.beta.sf(tau, self.successes + 0.5, self.plays - self.successes + 0.5))


class Curve:
    """Estimates points on demand; more plays extend what is known."""

    def __init__(self, branches: Branches, boundaries: int, threshold: float) -> None:
        self._branches = branches
        self.last = boundaries
        self._threshold = threshold
        self.points: dict[int, Point] = {boundaries: Point(boundaries, 0, 0)}

    async def at(self, boundaries: Sequence[int], plays: int) -> list[Point]:
        """The points of these prefixes with at least so many plays. Raises OutOfBudget."""
        wanted = [b for b in dict.fromkeys(boundaries) if b < self.last and self._plays(b) < plays]
        returns = await self._branches.returns([Branch(b, noise) for b in wanted for noise in range(plays)])
        for place, b in enumerate(wanted):
            won = sum(r >= self._threshold for r in returns[place * plays : (place + 1) * plays])
            self.points[b] = Point(b, won, plays)
        return [self.points[b] for b in boundaries]

    def _plays(self, boundary: int) -> int:
        return self.points[boundary].plays if boundary in self.points else 0
