"""Credit of many agents, and of records that say little."""

import dataclasses
import itertools

import numpy as np
import pytest

from potluck_audit.counterfactual.coalitions import Players, complete, own_policies
from potluck_audit.counterfactual.setting import Incomparable, require_same, setting_of
from potluck_audit.counterfactual.values import CoalitionValues, recorded_values
from potluck_audit.credit import Budget, attribute, credit, plan, sampled_credit
from potluck_audit.errors import InvalidRequest, Unsupported
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.permutations import prefixes

FEW = Intervals(resamples=200)
NINE = tuple(f"agent_{n}" for n in range(9))


def nine_agents(episodes=6):
    """Everybody is worth its number; 0 and 8 need each other; each episode adds its own luck to whoever is there."""
    luck = np.linspace(-0.2, 0.2, episodes)

    def worth(members):
        plain = sum(int(name.removeprefix("agent_")) for name in members)
        return plain + (10.0 if {"agent_0", "agent_8"} <= members else 0.0) + len(members) * luck

    every = (frozenset(s) for size in range(10) for s in itertools.combinations(NINE, size))
    returns = {members: tuple(np.broadcast_to(worth(members), (episodes,)).tolist()) for members in every}
    return CoalitionValues(NINE, "uniform", tuple(range(episodes)), returns)


async def test_nine_agents_are_sampled_within_their_intervals(team):
    values = nine_agents()
    found = await attribute(
        values, team([1.0]), Players(None, None, None), FEW, lambda *stage: None, Budget(coalitions=128, seed=2)
    )
    exact = {p: float(n) + (5.0 if n in (0, 8) else 0.0) for n, p in enumerate(NINE)}
    assert (found.method, found.baseline) == ("sampled", "uniform")
    assert found.orders % 2 == 0
    assert found.coalitions <= 128
    for metric, error in zip(found.credits, found.errors, strict=True):
        assert metric.key == "uniform"
        assert abs(metric.estimate.value - exact[metric.agent]) <= 4.5 * error.estimate.value + 1e-9
        assert metric.estimate.low <= exact[metric.agent] <= metric.estimate.high
    shared = sum(m.estimate.value for m in found.credits)
    assert shared == pytest.approx(found.team_value - found.empty_value, abs=1e-9)
    assert any("sampled" in note for note in found.notes)
    assert not found.interactions


def test_a_wider_budget_makes_nine_agents_exact():
    coalitions, orders = plan(NINE, Budget(coalitions=512))
    assert (len(coalitions), orders) == (512, [])
    found = credit(nine_agents(), "s", "points", FEW)
    assert {m.agent: m.estimate.value for m in found.credits}["agent_8"] == pytest.approx(13.0)
    pairs = {m.agent: m.estimate.value for m in found.interactions}
    assert pairs["agent_0+agent_8"] == pytest.approx(10.0)
    assert pairs["agent_1+agent_2"] == pytest.approx(0.0)


def test_seven_agents_are_exact_and_fewer_coalitions_sample():
    coalitions, orders = plan(NINE[:7], Budget())
    assert (len(coalitions), orders) == (128, [])
    coalitions, orders = plan(NINE[:7], Budget(coalitions=60))
    assert set(coalitions) == {members for order in orders for members in prefixes(order)}
    assert len(coalitions) <= 60
    with pytest.raises(InvalidRequest, match="too few to sample") as caught:
        plan(NINE, Budget(coalitions=20))
    assert "allow 34 or more" in caught.value.cure
    assert caught.value.metadata["field"] == "budget"


def test_one_episode_has_credit_and_no_interval():
    exact = credit(nine_agents(1), "s", "points", FEW)
    _, orders = plan(NINE, Budget())
    sampled = sampled_credit(nine_agents(1), orders, "s", "points", FEW)
    for found in (exact, sampled):
        assert all(m.estimate.low is m.estimate.high is None for m in found.credits)
        assert any("one episode" in note for note in found.notes)


def test_a_team_that_earned_nothing_shares_nothing():
    values = CoalitionValues(
        ("a", "b"), "noop", (1, 2), {frozenset(s): (0.0, 0.0) for s in ((), ("a",), ("b",), ("a", "b"))}
    )
    found = credit(values, "s", "soups", FEW)
    assert [m.estimate.value for m in found.credits] == [0.0, 0.0]
    assert any("Nobody earned anything" in note for note in found.notes)


async def test_a_set_without_any_return_is_refused(team):
    lost = team([None, None])
    values = recorded_values(lost, {})
    assert values.left_out == 2
    with pytest.raises(Unsupported, match="no episode of eval/trained holds a return"):
        await attribute(values, lost, Players(None, None, None), FEW, lambda *stage: None)


def test_episodes_without_a_return_are_left_out_and_counted(team):
    some = team([3.0, None, float("inf"), 5.0])
    values = recorded_values(some, {})
    assert values.seeds == (10000, 10003)
    assert values.left_out == 2
    full = dataclasses.replace(
        values, returns={**values.returns, **{frozenset(s): (0.0, 0.0) for s in ((), ("agent_0",), ("agent_1",))}}
    )
    notes = credit(full, "eval/trained", "soups", FEW).notes
    assert any("2 of 4 episodes" in note for note in notes)


def test_a_solo_test_of_an_older_team_is_not_the_teams(team):
    """`potluck eval` replaces the team's set and may leave the solo set of an earlier checkpoint behind."""
    both = team([6.0, 8.0])
    alone = {"agent_0": both.episodes[0].policies["agent_0"], "agent_1": "noop"}
    solo = team([2.0, 3.0], name="eval/solo/agent_0", policies=alone)
    assert recorded_values(both, {"agent_0": solo}).returns[frozenset({"agent_0"})] == (2.0, 3.0)
    for change in ({"policies": alone | {"agent_0": "f" * 64}}, {"temperature": 0.5}, {"horizon": 200}):
        older = team([2.0, 3.0], name="eval/solo/agent_0", **({"policies": alone} | change))
        assert frozenset({"agent_0"}) not in recorded_values(both, {"agent_0": older}).returns


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"library_digest": "f" * 64}, "option library"),
        ({"horizon": 200}, "horizon"),
        ({"temperature": 0.5}, "temperature"),
        ({"base_digest": "f" * 64}, "frozen base"),
        ({"game": "overcooked/cramped_room"}, "game"),
    ],
)
def test_episodes_of_two_settings_are_refused(team, change, words):
    one, other = team([1.0, 2.0]), team([1.0, 2.0], **change)
    mixed = EpisodeSet("eval/trained", [one.episodes[0], other.episodes[1]], "soups")
    with pytest.raises(Incomparable, match=words):
        setting_of(mixed)
    with pytest.raises(Incomparable, match=f"two runs differ in their {words}"):
        require_same(setting_of(one), setting_of(other), "two runs", "runs")


def test_two_episodes_of_one_seed_are_refused(team):
    with pytest.raises(InvalidRequest, match="have the same seeds"):
        setting_of(team([1.0, 2.0], seed=7))


async def test_a_set_of_two_teams_is_refused(team):
    one, other = team([1.0, 2.0]), team([1.0, 2.0], policies={"agent_0": "e" * 64, "agent_1": "f" * 64})
    mixed = EpisodeSet("eval/trained", [one.episodes[0], other.episodes[1]], "soups")
    with pytest.raises(Unsupported, match="played by different policies"):
        own_policies(mixed)
    with pytest.raises(Unsupported, match="played by different policies"):
        await complete(recorded_values(mixed, {}), mixed, [frozenset()], Players(None, None, None), lambda *stage: None)
