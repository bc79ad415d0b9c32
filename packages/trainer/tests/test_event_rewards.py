"""Rewards for events reach the advantage of a round, and nothing else."""

from types import SimpleNamespace

import pytest

from potluck.env.v1.env_service_pb2 import Event, StepRecord
from potluck_trainer.algorithms.keyed_return_to_go import estimator
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.rollouts import Collected, round_returns

SHAPED = {"pot": 0.15, "plate": 0.25}


def episode(*steps: StepRecord, soups: float = 0.0):
    """Four steps in which one agent decided at 0 and 2, twice in the same state."""
    decisions = [
        SimpleNamespace(agent="agent_0", step=step, prompt=SimpleNamespace(state_key="hold none")) for step in (0, 2)
    ]
    return SimpleNamespace(
        spec=SimpleNamespace(policies={"agent_0": None}),
        finished=SimpleNamespace(steps=4, team_return=soups),
        steps=list(steps),
        decisions=decisions,
    )


def potted(step: int) -> StepRecord:
    return StepRecord(step=step, events=[Event(kind="pot", agent="agent_0"), Event(kind="drop", agent="agent_0")])


def collected(*episodes) -> Collected:
    return Collected(dict(enumerate(episodes)), ())


def test_events_add_to_their_step_and_leave_the_return_alone():
    served = StepRecord(step=3, reward=1.0, events=[Event(kind="plate"), Event(kind="plate")])
    one = round_returns(collected(episode(potted(1), served, soups=1.0)), SHAPED).episodes[0]
    assert one.step_rewards_T.tolist() == [0, 0.15, 0, 1.5]
    assert one.team_return == 1.0


def test_without_them_nothing_changes():
    one = round_returns(collected(episode(potted(1))), {}).episodes[0]
    assert one.step_rewards_T.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("rewards", "learns"), [(SHAPED, True), ({}, False), ({"deliver": 1.0}, False)])
def test_a_round_without_a_soup_teaches_by_its_events(rewards, learns):
    config = AlgorithmConfig(name="keyed_return_to_go", window=2, event_rewards=rewards)
    found = estimator(round_returns(collected(episode(potted(1)), episode()), rewards), config)
    assert bool(found.values) is learns
    if learns:
        assert found.values[0]["agent_0"][0] > 0 > found.values[1]["agent_0"][0]


@pytest.mark.parametrize("name", ["episode", "shapley_advantage", "shapley_shares"])
def test_what_does_not_read_them_refuses_them(name):
    with pytest.raises(ValueError, match=f"{name} does not read event_rewards; use return_to_go"):
        AlgorithmConfig(name=name, event_rewards=SHAPED)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_are_finite(value):
    with pytest.raises(ValueError, match="finite"):
        AlgorithmConfig(name="return_to_go", event_rewards={"pot": value})
