"""Advantages against hand-computed values and published bugs."""

import numpy as np
import pytest

from potluck_trainer.algorithms import episode, registry, return_to_go
from potluck_trainer.algorithms.base import EpisodeReturns, RoundReturns, Skip
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import ConfigError, NonFiniteError

CONFIG = AlgorithmConfig()


def members(returns, decisions=None, steps=400):
    counts = decisions or [1] * len(returns)
    return RoundReturns(
        tuple(
            EpisodeReturns(k, value, np.zeros(steps), {"a": tuple(range(count)), "b": (0,)})
            for k, (value, count) in enumerate(zip(returns, counts, strict=True))
        )
    )


def advantages(returns, **kwargs):
    found = episode.estimator(members(returns, **kwargs), CONFIG)
    return found, [found.values[k]["a"].tolist() for k in sorted(found.values)]


def test_one_success_in_four_and_six_with_population_std():
    _, four = advantages([1, 0, 0, 0])
    assert four[0] == pytest.approx([np.sqrt(3)])
    assert four[1] == pytest.approx([-1 / np.sqrt(3)])
    _, six = advantages([0, 0, 1, 0, 0, 0])
    assert six[2] == pytest.approx([np.sqrt(5)])
    assert six[0] == pytest.approx([-1 / np.sqrt(5)])


def test_one_scalar_for_every_agent_and_decision():
    found, _ = advantages([3, 1], decisions=[4, 2])
    assert found.values[0]["a"].tolist() == [1.0] * 4
    assert found.values[0]["b"].tolist() == [1.0]
    assert found.values[1]["a"].tolist() == [-1.0] * 2


def test_decisions_are_not_group_members():
    found, values = advantages([1, 0, 1, 0], decisions=[2, 1, 2, 1])
    assert found.baseline == 0.5
    assert values == [[1.0, 1.0], [-1.0], [1.0, 1.0], [-1.0]]


@pytest.mark.parametrize("returns", [[0.0, *[0.95] * 7], [0.0, *[0.35] * 7]])
def test_a_lone_outlier_stays_bounded(returns):
    _, values = advantages(returns)
    assert values[0] == pytest.approx([-np.sqrt(7)])
    assert values[1] == pytest.approx([1 / np.sqrt(7)])


@pytest.mark.parametrize("value", [0.95, 0.35, 1e-3, 1e6])
def test_rounding_residue_is_zero_variance_at_any_scale(value):
    residue = np.float32(value) * (1 + np.array([0, 6e-8, 0, -6e-8]))
    found, _ = advantages(residue.tolist())
    assert found.skip is Skip.ZERO_VARIANCE


def test_small_scale_differences_are_signal():
    found, values = advantages([1e-6, 2e-6])
    assert found.skip is None
    assert values == [pytest.approx([-1.0]), pytest.approx([1.0])]


def test_no_update_and_a_reason():
    assert advantages([2, 2, 2])[0].skip is Skip.ZERO_VARIANCE
    assert advantages([0, 0])[0].skip is Skip.ZERO_VARIANCE
    assert advantages([0.7])[0].skip is Skip.SINGLE_MEMBER
    assert advantages([0.7])[0].values == {}
    assert episode.estimator(RoundReturns(()), CONFIG).skip is Skip.EMPTY


def test_a_failed_member_moves_nothing():
    whole = members([1, 9, 3])
    without = RoundReturns((whole.episodes[0], whole.episodes[2]))
    found = episode.estimator(without, CONFIG)
    assert found.baseline == 2.0
    assert found.values[0]["a"].tolist() == [-1.0]
    assert found.values[2]["a"].tolist() == [1.0]
    assert 1 not in found.values
    same = RoundReturns(members([1, 1]).episodes)
    assert episode.estimator(same, CONFIG).skip is Skip.ZERO_VARIANCE


@pytest.mark.parametrize("name", ["episode", "return_to_go"])
def test_nan_raises_and_names_the_episode(name):
    rewards = np.array([0.0, np.nan])
    bad = RoundReturns((EpisodeReturns(0, 0.0, np.zeros(2), {}), EpisodeReturns(7, np.nan, rewards, {})))
    with pytest.raises(NonFiniteError, match="episode 7"):
        registry.load(name)(bad, CONFIG)


def test_windowed_return_to_go_by_hand():
    rewards = np.array([0, 1, 0, 0, 2, 0], dtype=float)
    assert return_to_go.windowed(rewards, 2).tolist() == [1, 1, 0, 2, 2, 0]
    assert return_to_go.windowed(rewards, 100).tolist() == [3, 3, 2, 2, 2, 0]
    assert return_to_go.windowed(rewards, 1).tolist() == rewards.tolist()


def test_return_to_go_baseline_goes_by_environment_time():
    quick = EpisodeReturns(0, 1.0, np.array([0.0, 0.0, 1.0, 0.0]), {"a": (0, 1, 2, 3)})
    slow = EpisodeReturns(1, 0.0, np.zeros(4), {"a": (0, 3)})
    found = return_to_go.estimator(RoundReturns((quick, slow)), AlgorithmConfig(window=1))
    # centred at step 2: +.5 and -.5, elsewhere 0; one std over 8 values: sqrt(2 * .25 / 8) = .25
    assert found.values[0]["a"] == pytest.approx([0, 0, 2, 0])
    assert found.values[1]["a"] == pytest.approx([0, 0])
    assert found.scale == pytest.approx(0.25)


def test_return_to_go_ignores_how_many_decisions_there_were():
    rewards = np.array([0.0, 1.0, 0.0])
    few = RoundReturns((EpisodeReturns(0, 1, rewards, {"a": (0,)}), EpisodeReturns(1, 0, np.zeros(3), {"a": (0,)})))
    many = RoundReturns(
        (EpisodeReturns(0, 1, rewards, {"a": (0, 1, 2)}), EpisodeReturns(1, 0, np.zeros(3), {"a": (0, 1)}))
    )
    config = AlgorithmConfig(window=2)
    assert return_to_go.estimator(few, config).values[0]["a"][0] == pytest.approx(
        return_to_go.estimator(many, config).values[0]["a"][0]
    )


def test_return_to_go_skips_without_signal():
    flat = RoundReturns(tuple(EpisodeReturns(k, 1.0, np.array([0.0, 1.0]), {"a": (0,)}) for k in range(3)))
    assert return_to_go.estimator(flat, CONFIG).skip is Skip.ZERO_VARIANCE
    assert return_to_go.estimator(RoundReturns(flat.episodes[:1]), CONFIG).skip is Skip.SINGLE_MEMBER


def test_an_unknown_algorithm_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"episode, keyed_return_to_go, return_to_go"):
        registry.load("epsiode")
