"""Intervals against known values."""

import numpy as np
import pytest

from potluck_trainer.intervals import apart, mean_interval, paired_difference


def test_student_interval_of_a_known_sample():
    """Mean 3, sd sqrt(2.5), n 5: t(.975, 4) = 2.776445."""
    found = mean_interval([1, 2, 3, 4, 5])
    half = 2.776445 * np.sqrt(2.5) / np.sqrt(5)
    assert (found.mean, found.count) == (3.0, 5)
    assert (found.t_low, found.t_high) == pytest.approx((3 - half, 3 + half), rel=1e-6)
    assert found.low < 3 < found.high


def test_equal_values_have_no_width_and_no_nan():
    for values in ([2.0], [2.0, 2.0, 2.0]):
        found = mean_interval(values)
        assert (found.low, found.mean, found.high) == (2.0, 2.0, 2.0)


def test_intervals_cover_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    hits = sum(i.low <= 4 <= i.high for i in (mean_interval(rng.poisson(4, 20).tolist()) for _ in range(60)))
    assert hits >= 50


def test_pairing_removes_what_seeds_share():
    seeds = np.random.default_rng(1).normal(scale=10, size=20)
    better = seeds + 1 + np.random.default_rng(2).normal(scale=0.1, size=20)
    difference = paired_difference(better.tolist(), seeds.tolist())
    assert difference.low > 0.9
    assert not apart(mean_interval(better.tolist()), mean_interval(seeds.tolist()))
    assert apart(mean_interval([1.0, 1.1]), mean_interval([2.0, 2.1]))
