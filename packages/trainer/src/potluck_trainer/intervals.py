"""Means with intervals, and paired differences: what stands behind every claim of an evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its bounds by bootstrap (BCa) and by Student's t."""

    mean: float
    low: float
    high: float
    t_low: float
    t_high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean of independent values. Equal or single values have no width to show."""
    data = np.asarray(values, dtype=np.float64)
    mean = float(data.mean())
    if len(data) < 2 or np.ptp(data) == 0:
        return Interval(mean, mean, mean, mean, mean, len(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BCa warns where it degenerates; the bounds are then replaced below
        boot = stats.bootstrap(
            (data,), np.mean, confidence_level=confidence, n_resamples=RESAMPLES, method="BCa", rng=0
        ).confidence_interval
    t_low, t_high = stats.t.interval(confidence, len(data) - 1, loc=mean, scale=stats.sem(data))
    low, high = (float(boot.low), float(boot.high)) if np.isfinite([boot.low, boot.high]).all() else (t_low, t_high)
    return Interval(mean, low, high, float(t_low), float(t_high), len(data))


def paired_difference(ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean difference over the same seeds."""
    return mean_interval((np.asarray(ours) - np.asarray(theirs)).tolist(), confidence)


def apart(one: Interval, other: Interval) -> bool:
    """Whether two intervals do not touch."""
    return one.low > other.high or other.low > one.high
