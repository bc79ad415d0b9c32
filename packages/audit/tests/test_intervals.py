import numpy as np
import pytest

from potluck_audit.intervals import UNDEFINED, Intervals


def test_mean_with_bootstrap_interval():
    found = Intervals().mean([1.0, 2.0, 3.0, 4.0])
    assert found.value == 2.5
    assert found.episodes == 4
    assert 1.0 < found.low < 2.5 < found.high < 4.0


def test_the_same_records_give_the_same_interval():
    values = list(np.random.default_rng(1).normal(size=20))
    assert Intervals().mean(values) == Intervals().mean(values)


def test_t_interval_by_hand():
    found = Intervals().mean_t([1.0, 2.0, 3.0])
    # t(.975, 2) = 4.302653, s = 1, n = 3
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6)


def test_bootstrap_interval_covers_the_mean():
    rng = np.random.default_rng(0)
    quick = Intervals(resamples=500)
    covered = [(e := quick.mean(list(rng.normal(size=20)))).low <= 0 <= e.high for _ in range(300)]
    assert 0.88 <= np.mean(covered) <= 0.98


def test_nothing_is_undefined_and_not_zero():
    assert Intervals().mean([]) == UNDEFINED
    assert Intervals().mean([None, None]) == UNDEFINED
    assert Intervals().ratio([], []) == UNDEFINED


def test_missing_values_are_left_out_and_not_counted_as_zero():
    found = Intervals().mean([2.0, None, 4.0])
    assert (found.value, found.episodes) == (3.0, 2)


def test_one_episode_has_a_value_and_no_interval():
    assert Intervals().mean([3.0]) == (3.0, None, None, 1)
    assert Intervals().mean_t([3.0]) == (3.0, None, None, 1)


def test_constant_values_have_a_point_interval():
    assert Intervals().mean([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0, 3)


def test_a_ratio_to_zero_is_undefined():
    assert Intervals().ratio([1.0, 2.0], [0.0, 0.0]) == (None, None, None, 2)


def test_a_ratio_that_is_undefined_in_some_resamples_has_no_interval():
    assert Intervals().ratio([4.0, 0.0], [1.0, 0.0]) == (4.0, None, None, 2)


def test_confidence_widens_the_interval():
    values = [1.0, 5.0, 2.0, 8.0, 3.0]
    narrow, wide = Intervals(0.5).mean(values), Intervals(0.99).mean(values)
    assert wide.low < narrow.low < narrow.high < wide.high
