"""Point estimates with intervals over episodes.

An episode is the unit that is resampled: its steps and decisions are never treated as independent. The interval is
the percentile bootstrap (10,000 resamples from a fixed seed, so that the same records give the same numbers). What
is undefined is None: a mean of nothing, a ratio to zero, an interval of one episode.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """A number, its interval and the episodes behind it."""

    value: float | None
    low: float | None
    high: float | None
    episodes: int

    def text(self, undefined: str = "undefined") -> str:
        """The number in words, with its interval where there is one."""
        if self.value is None:
            return undefined
        if self.low is None or self.high is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


UNDEFINED = Estimate(None, None, None, 0)


def _defined(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None


@dataclass(frozen=True)
class Intervals:
    """How intervals are made."""

    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    def mean(self, values: Sequence[float | None]) -> Estimate:
        """Mean of the values that are there."""
        known = np.array([v for v in values if v is not None], float)
        if not len(known):
            return UNDEFINED
        return self.of_sums(lambda total, count: total / count, known, np.ones_like(known))

    def mean_t(self, values: Sequence[float | None]) -> Estimate:
        """Mean with Student's t interval: for few episodes, where the bootstrap is too narrow."""
        known = np.array([v for v in values if v is not None], float)
        if not len(known):
            return UNDEFINED
        mean, count = float(known.mean()), len(known)
        if count == 1:
            return Estimate(mean, None, None, 1)
        from scipy import stats

        half = float(stats.t.ppf((1 + self.confidence) / 2, count - 1)) * float(known.std(ddof=1)) / math.sqrt(count)
        return Estimate(mean, mean - half, mean + half, count)

    def ratio(self, numerators: Sequence[float] | Floats, denominators: Sequence[float] | Floats) -> Estimate:
        """Sum over episodes of one count by the sum of another."""
        return self.of_sums(lambda n, d: n / d, np.asarray(numerators, float), np.asarray(denominators, float))

    def of_sums(self, statistic: Callable[..., Any], *columns: Floats) -> Estimate:
        """A function of sums over episodes; each column holds one number an episode."""
        count = len(columns[0]) if columns else 0
        if not count:
            return UNDEFINED
        with np.errstate(divide="ignore", invalid="ignore"):
            value = _defined(statistic(*(c.sum() for c in columns)))
            if value is None or count == 1:
                return Estimate(value, None, None, count)
            low, high = self._bootstrap(statistic, columns, value)
        return Estimate(value, low, high, count)

    def _bootstrap(
        self, statistic: Callable[..., Any], columns: Sequence[Floats], value: float
    ) -> tuple[float | None, float | None]:
        if all((c == c[0]).all() for c in columns):
            return value, value
        from scipy import stats  # two seconds of CPU: not before there is something to measure

        with warnings.catch_warnings(category=stats.DegenerateDataWarning, action="ignore"):
            result = self._resampled(statistic, columns)
        return _defined(result.confidence_interval.low), _defined(result.confidence_interval.high)

    def _resampled(self, statistic: Callable[..., Any], columns: Sequence[Floats]) -> Any:
        from scipy import stats

        return stats.bootstrap(
            tuple(columns),
            lambda *resampled, axis: statistic(*(r.sum(axis=axis) for r in resampled)),
            paired=True,
            vectorized=True,
            method="percentile",
            confidence_level=self.confidence,
            n_resamples=self.resamples,
            batch=2_000,
            rng=np.random.default_rng(self.seed),
        )
