"""Tests beside intervals against published rules, enumeration and simulation."""

from itertools import product

import numpy as np
import pytest

from potluck_audit.intervals import UNDEFINED, Intervals
from potluck_audit.metrics.deliveries import gini
from potluck_audit.metrics.labour import information
from potluck_audit.metrics.options import jensen_shannon
from potluck_audit.metrics.returns import gain_tests
from potluck_audit.statistics import baseline, exceedance, holm, jackknife, pair_mean, paired_permutation

QUICK = Intervals(resamples=500)


def test_holm_by_hand():
    # 4 x .005, 3 x .01, 2 x .03, 1 x .04 with the running maximum
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


def test_holm_leaves_out_what_was_not_tested():
    assert holm({"a": 0.02, "b": None, "c": 0.5}) == pytest.approx({"a": 0.04, "b": None, "c": 0.5})
    assert holm({}) == {}
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("wrong", [1.5, -0.1, float("nan")])
def test_holm_refuses_what_is_no_p_value(wrong):
    with pytest.raises(ValueError, match="no p-value"):
        holm({"a": wrong, "b": 0.5})


def test_holm_holds_the_familywise_level():
    rng = np.random.default_rng(0)
    families = [holm(dict(enumerate(rng.uniform(size=8)))) for _ in range(2000)]
    wrong = np.mean([min(f.values()) <= 0.05 for f in families])
    assert wrong < 0.065
    uncorrected = 1 - 0.95**8
    assert uncorrected > 0.3, "without correction a third of the families would hold a false finding"


def test_paired_permutation_is_the_enumeration_of_signs():
    differences = np.array([1.5, -0.5, 2.0, 0.25, 1.0])
    means = [np.mean(differences * signs) for signs in product([1, -1], repeat=5)]
    expected = np.mean([abs(m) >= abs(differences.mean()) - 1e-12 for m in means])
    assert paired_permutation(list(differences)) == pytest.approx(expected)


def test_five_pairs_cannot_reach_the_usual_level():
    assert paired_permutation([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 32)


def test_paired_permutation_of_nothing_is_undefined():
    assert paired_permutation([]) is None
    assert paired_permutation([3.0]) is None
    assert paired_permutation([0.0, 0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="not a number"):
        paired_permutation([1.0, float("nan")])


def test_many_pairs_are_sampled_and_always_alike():
    differences = list(np.random.default_rng(3).normal(0.8, 1, size=30))
    found = paired_permutation(differences)
    assert found == paired_permutation(differences)
    assert found < 0.01


def test_exceedance_counts_the_observed_one():
    null = np.arange(99, dtype=float)
    assert exceedance(1000.0, null) == 0.01
    assert exceedance(-1.0, null) == 1.0
    assert exceedance(None, null) is None
    assert exceedance(1.0, np.empty(0)) is None


def test_baseline_is_the_range_of_the_null():
    found = baseline(np.linspace(0, 1, 1001), Intervals(), 7)
    assert found == pytest.approx((0.5, 0.025, 0.975, 7))
    assert baseline(np.empty(0), Intervals(), 1) == UNDEFINED._replace(episodes=1)


def test_pair_mean_leaves_out_a_unit_beside_itself():
    agreeing = np.array([[9.0, 1.0, 0.0], [1.0, 9.0, 0.5], [0.0, 0.5, 9.0]])
    found = pair_mean(agreeing, np.ones((3, 3)), QUICK)
    assert found.value == pytest.approx(0.5)
    assert pair_mean([[1.0]], [[1.0]], QUICK) == UNDEFINED._replace(episodes=1)
    two = pair_mean([[1.0, 0.25], [0.25, 1.0]], np.ones((2, 2)), QUICK)
    assert two == (0.25, None, None, 2), "one pair has no interval"


def test_pair_mean_covers():
    """Units take one of two roles with chance .7: a pair agrees with chance .58."""
    rng, covered = np.random.default_rng(1), []
    for _ in range(200):
        roles = rng.random(25) < 0.7
        found = pair_mean(roles[:, None] == roles[None], np.ones((25, 25)), QUICK)
        covered.append(found.low <= 0.58 <= found.high)
    assert 0.85 <= np.mean(covered) <= 1.0


def test_gains_over_several_sets_are_corrected_together(team):
    trained = team([5.0, 7.0, 6.0, 8.0, 9.0, 5.0, 7.0, 6.0])
    better = team([1.0, 2.0, 1.0, 3.0, 2.0, 1.0, 2.0, 1.0], "eval/frozen")
    same = team([5.0, 7.0, 6.0, 8.0, 9.0, 5.0, 7.0, 6.0], "eval/other")
    elsewhere = team([1.0, 2.0], "eval/new", seed=77)
    rows = gain_tests(trained, [better, same, elsewhere], QUICK)
    found = {(m.name, m.key.removeprefix("return_gain eval/")): m.estimate.value for m in rows}
    assert found["p_value", "frozen"] == pytest.approx(2 / 2**8)
    assert found["p_value_holm", "frozen"] == pytest.approx(2 * 2 / 2**8), "two of the three could be tested"
    assert found["p_value_holm", "other"] == 1.0
    assert found["p_value", "new"] is None, "no seed in common"


def test_a_jackknife_interval_holds_the_value_where_a_plain_one_lies_above():
    """Seven agents that choose alike: resamples look more divided than the records, and those more than the agents."""
    counts = np.random.default_rng(0).multinomial(50, np.full(8, 1 / 8), size=(20, 7)).astype(float)
    found = jackknife(information, counts, QUICK)
    assert found.low <= found.value <= found.high

    def statistic(*sums):
        table = np.stack(sums, axis=-1)
        return information(table.reshape(*table.shape[:-1], 7, 8))

    plain = QUICK.of_sums(statistic, *counts.reshape(20, -1).T)
    assert plain.low > found.value


def _covered(statistic, draw, truth, sets=200):
    """Share of jackknife and of percentile intervals that hold the truth."""
    rng, held = np.random.default_rng(4), []
    for _ in range(sets):
        counts = draw(rng)
        flat = counts.reshape(len(counts), -1)
        shape = counts.shape[1:]

        def of_sums(*sums, shape=shape):
            return statistic(np.stack(np.broadcast_arrays(*sums), axis=-1).reshape(*np.shape(sums[0]), *shape))

        tukey, plain = jackknife(statistic, counts, QUICK), QUICK.of_sums(of_sums, *flat.T)
        held.append([e.low - 1e-12 <= truth <= e.high + 1e-12 for e in (tukey, plain)])
    return np.mean(held, axis=0)


SHARES = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
LIKE = np.array([0.25, 0.3, 0.2, 0.1, 0.15])
APART = np.array([0.02, 0.08, 0.1, 0.1, 0.7])


@pytest.mark.parametrize("other", [SHARES, LIKE, APART], ids=["equal", "alike", "apart"])
def test_divergence_intervals_cover_the_truth_where_percentiles_do_not(other):
    """20 episodes of two agents whose shares vary from episode to episode around known ones."""

    def draw(rng):
        return np.stack(
            [[rng.multinomial(40, rng.dirichlet(20 * p)) for p in (SHARES, other)] for _ in range(20)]
        ).astype(float)

    tukey, plain = _covered(jensen_shannon, draw, float(jensen_shannon([SHARES, other])))
    assert tukey >= 0.9
    if other is not APART:
        assert plain < 0.85  # the negative control: this test would see a bad interval


def test_gini_intervals_cover_an_equal_split():
    tukey, plain = _covered(gini, lambda rng: rng.poisson([4, 4], size=(20, 2)).astype(float), 0.0)
    assert tukey >= 0.9 > plain


def test_a_jackknife_interval_says_what_is_undefined():
    assert jackknife(information, np.zeros((0, 2, 3)), QUICK) == UNDEFINED
    assert jackknife(information, np.zeros((4, 2, 3)), QUICK) == (None, None, None, 4)
    assert jackknife(information, np.eye(2)[None], QUICK) == (1.0, None, None, 1)
    rare = np.zeros((5, 2, 2))
    rare[:, 0, 0], rare[0, 1, 1] = 1, 1
    assert jackknife(information, rare, QUICK)[1:3] == (None, None), "without its episode that agent never acted"
