"""The keyed return-to-go advantage against hand-computed values."""

import numpy as np
import pytest

from potluck_trainer.algorithms import keyed_return_to_go, registry
from potluck_trainer.algorithms.base import EpisodeReturns, RoundReturns, Skip
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import NonFiniteError

CONFIG = AlgorithmConfig(name="keyed_return_to_go", window=2)


def episode(member, rewards, steps, keys):
    return EpisodeReturns(member, float(sum(rewards)), np.array(rewards, float), {"a": steps}, {"a": keys})


def test_the_baseline_is_the_state_s_mean_over_all_episodes():
    # Gains (window 2): episode 0 at steps 0, 2 -> 1, 0; episode 1 at steps 0, 2 -> 0, 3.
    one = episode(0, [0, 1, 0, 0], (0, 2), ("empty", "ready"))
    two = episode(1, [0, 0, 3, 0], (0, 2), ("empty", "ready"))
    found = keyed_return_to_go.estimator(RoundReturns((one, two)), CONFIG)
    centred = np.array([0.5, -1.5, -0.5, 1.5])  # means: empty .5, ready 1.5
    expected = centred / centred.std()
    assert found.values[0]["a"].tolist() == pytest.approx(expected[:2].tolist())
    assert found.values[1]["a"].tolist() == pytest.approx(expected[2:].tolist())
    assert found.baseline == 2.0


def test_a_good_state_is_no_credit_for_the_choice():
    """All decisions in `ready` are followed by the same gain: whatever was chosen there gets 0."""
    one = episode(0, [0, 0, 1, 0], (0, 2), ("empty", "ready"))
    two = episode(1, [1, 0, 1, 0], (0, 2), ("empty", "ready"))
    found = keyed_return_to_go.estimator(RoundReturns((one, two)), CONFIG)
    assert found.values[0]["a"][1] == 0.0
    assert found.values[1]["a"][1] == 0.0
    assert found.values[0]["a"][0] < 0 < found.values[1]["a"][0]


def test_a_state_seen_once_gives_no_signal():
    one = episode(0, [0, 1, 0, 0], (0,), ("only here",))
    two = episode(1, [0, 0, 0, 0], (0,), ("only there",))
    found = keyed_return_to_go.estimator(RoundReturns((one, two)), CONFIG)
    assert found.skip is Skip.ZERO_VARIANCE


def test_short_rounds_and_bad_rewards():
    assert keyed_return_to_go.estimator(RoundReturns(()), CONFIG).skip is Skip.EMPTY
    alone = episode(0, [0, 1], (0,), ("s",))
    assert keyed_return_to_go.estimator(RoundReturns((alone,)), CONFIG).skip is Skip.SINGLE_MEMBER
    bad = episode(1, [0, float("nan")], (0,), ("s",))
    with pytest.raises(NonFiniteError, match="episode 1"):
        keyed_return_to_go.estimator(RoundReturns((alone, bad)), CONFIG)


def test_it_is_an_entry_point():
    assert registry.load("keyed_return_to_go") is keyed_return_to_go.estimator
