"""The two-pool form: published check, exact sums, and the cases in which division by the sum fails."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck_audit.blame.shares import two_pool, weights


def test_the_published_check():
    assert two_pool([1, 1, -1, 0], 1.0) == [0.75, 0.75, -0.5, 0.0]


def test_labels_are_read_relative_to_the_credits_sign():
    assert two_pool([-1, -1, 1, 0], -1.0) == [-0.75, -0.75, 0.5, 0.0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, -1], [1.5, -0.5]),
        ([1, 1], [0.5, 0.5]),
        ([-1, 0], [0.5, 0.5]),
        ([0, 0, 0, 0], [0.25] * 4),
        ([3, 1, -2], [1.125, 0.375, -0.5]),
        ([None, 2], [0.0, 1.0]),
    ],
)
def test_labels_that_cancel_or_are_missing(labels, expected):
    assert weights(labels, 2.0) == pytest.approx(expected)


def test_the_naive_form_fails_where_this_does_not():
    """Negative control: s / sum(s) is undefined where labels cancel and turns around where the sum is negative."""
    naive = [label / -1 for label in (1, -2)]
    assert naive[0] < 0
    assert weights([1, -2], 1.0)[0] > 0
    with pytest.raises(ZeroDivisionError):
        _ = 1 / sum((1, -1))


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False)), min_size=1, max_size=60),
    st.floats(-1e6, 1e6, allow_subnormal=False),
)
def test_shares_add_up_to_the_credit_exactly(labels, credit):
    shares = two_pool(labels, credit)
    assert math.fsum(shares) == credit
    assert all(abs(w) <= 1.5 + 1e-9 for w in weights(labels, credit))


@pytest.mark.parametrize(
    ("labels", "credit", "alpha"), [([], 1.0, 1.5), ([math.nan], 1.0, 1.5), ([1], math.inf, 1.5), ([1], 1.0, 0.9)]
)
def test_bad_input_is_refused(labels, credit, alpha):
    with pytest.raises(ValueError):
        two_pool(labels, credit, alpha)
