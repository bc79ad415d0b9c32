"""Samples follow the distribution and depend on the seed alone."""

import math

import numpy as np
import pytest

from potluck_policy_server.sampling import choose, uniform


def test_the_hash_is_splitmix64():
    # First outputs of the published generator for seeds 0 and 1234567.
    assert uniform(0) == (0xE220A8397B1DCDAF >> 11) * 2.0**-53
    assert uniform(1234567) == (6457827717110365317 >> 11) * 2.0**-53


def test_frequencies_follow_the_probabilities():
    p = np.array([0.5, 0.3, 0.0, 0.15, 0.05])
    n = 40_000
    counts = np.bincount([choose(p, seed, False) for seed in range(n)], minlength=5)
    assert counts[2] == 0
    seen = p > 0
    chi2 = float((((counts - n * p) ** 2)[seen] / (n * p)[seen]).sum())
    assert chi2 < 16.3  # 3 degrees of freedom, p = 0.001


def test_neighbouring_seeds_are_independent():
    values = np.array([uniform(seed) for seed in range(10_000)])
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03
    assert values.mean() == pytest.approx(0.5, abs=0.01)


def test_greedy_takes_the_first_of_equals():
    assert choose(np.array([0.2, 0.4, 0.4]), 7, True) == 1


def test_an_impossible_last_item_is_never_taken():
    p = np.array([1.0 - 1e-17, 0.0])
    assert {choose(p, seed, False) for seed in range(1000)} == {0}


def test_rounding_below_one_still_gives_an_item():
    p = np.full(3, 1 / 3) * (1 - 1e-12)
    assert {choose(p, seed, False) for seed in range(1000)} == {0, 1, 2}
    assert math.isclose(p.sum(), 1, rel_tol=1e-9)
