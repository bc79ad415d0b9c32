"""Every metric on records whose right values were worked out by hand, and on records that must not pass."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.behaviour import checks
from potluck_audit.metrics.curves import learning_curve
from potluck_audit.metrics.deliveries import deliveries, gini
from potluck_audit.metrics.handoffs import handoffs, trace, transfer_check
from potluck_audit.metrics.idle import idle_shares
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.metrics.options import divergence, jensen_shannon, option_shares
from potluck_audit.metrics.returns import gain, team_return
from potluck_audit.metrics.visits import visits

QUICK = Intervals(resamples=200)


def values(metrics, name):
    return {(m.agent, m.key): m.estimate.value for m in metrics if m.name == name}


def test_team_return_and_paired_gain(team):
    trained, frozen = team([5.0, 7.0]), team([1.0, 3.0], "eval/frozen")
    assert values(team_return(trained, QUICK), "return") == {("", ""): 6.0, ("", "t"): 6.0}
    [difference] = gain(trained, frozen, QUICK)
    assert difference.estimate == (4.0, 4.0, 4.0, 2), "every seed gains 4: the pairing takes the spread out"


def test_gain_pairs_by_seed_and_not_by_place(team, episode):
    trained = team([5.0, 7.0])
    shuffled = [episode(set="eval/frozen", seed=s, team_return=r) for s, r in ((10001, 3.0), (10000, 1.0), (9, 50.0))]
    [difference] = gain(trained, EpisodeSet("eval/frozen", shuffled, "soups"), QUICK)
    assert difference.estimate == (4.0, 4.0, 4.0, 2)


def test_an_episode_without_a_return_stays_missing(team):
    [metric, _] = team_return(team([None, 2.0]), QUICK)
    assert metric.estimate == (2.0, None, None, 1)


def test_option_shares_by_decisions_and_by_time(team, tape):
    one = tape()
    one.option("agent_0", "pick_onion", 9)
    one.option("agent_0", "wait", 1)
    one.option("agent_1", "wait", 5)
    metrics = option_shares(team([one]), QUICK)
    assert values(metrics, "option_share_decisions") == {
        ("agent_0", "pick_onion"): 0.5, ("agent_0", "wait"): 0.5,
        ("agent_1", "pick_onion"): 0.0, ("agent_1", "wait"): 1.0,
    }  # fmt: skip
    assert values(metrics, "option_share_time")["agent_0", "pick_onion"] == 0.9


def test_an_agent_that_never_chose_has_undefined_shares_and_divergence(team, tape):
    one = tape()
    one.option("agent_0", "wait", 1)
    shares = values(option_shares(team([one]), QUICK), "option_share_time")
    assert shares["agent_1", "wait"] is None
    assert values(divergence(team([one]), QUICK), "option_divergence_time") == {("", ""): None}


def test_divergence_is_the_published_one():
    # Paper 1, figure 1: shares of two Asymmetric Advantages agents, derived value .375 bits.
    first = [33.42, 35.58, 6.12, 4.36, 5.91, 4.18, 10.43]
    second = [5.22, 3.84, 5.31, 3.72, 6.67, 3.58, 71.66]
    found = jensen_shannon([first, second])
    assert found == pytest.approx(0.375, abs=5e-4)
    assert found == pytest.approx(jensenshannon(first, second, base=2) ** 2, abs=1e-12)


def test_divergence_reaches_its_ends():
    assert jensen_shannon([[1, 0], [1, 0]]) == 0.0
    assert jensen_shannon([[1, 0], [0, 1]]) == 1.0
    assert jensen_shannon(np.eye(4)) == 2.0


def test_divergence_differs_by_weighting(team, tape):
    one = tape()
    for agent, walk in (("agent_0", 19), ("agent_1", 1)):
        one.option(agent, "pick_onion", walk)
        one.option(agent, "wait", 1)
    metrics = divergence(team([one]), QUICK)
    assert values(metrics, "option_divergence_decisions")["", ""] == 0.0
    assert values(metrics, "option_divergence_time")["", ""] > 0.1


def test_idle_shares_are_of_environment_steps_and_kept_apart(team, tape, at):
    one = tape()
    for first, second in (("MOVE", "NOOP"), ("WAIT", "NOOP"), ("BLOCKED", "NOOP"), ("INTERACT", "NOOP")):
        one.step(at(1, 1, first), at(3, 1, second))
    shares = values(idle_shares(team([one]), QUICK), "idle_share")
    assert [shares["agent_0", k] for k in ("wait", "blocked", "noop", "all")] == [0.25, 0.25, 0.0, 0.5]
    assert [shares["agent_1", k] for k in ("wait", "blocked", "noop", "all")] == [0.0, 0.0, 1.0, 1.0]


def test_idle_shares_without_step_records_are_undefined(team, tape):
    one = tape()
    one.event("pickup", "agent_0", "onion#1", "dispenser")
    assert set(values(idle_shares(team([one]), QUICK), "idle_share").values()) == {None}


def test_deliveries_per_agent_and_their_gini(team, tape):
    one = tape()
    for number, agent in enumerate(("agent_0", "agent_0", "agent_0", "agent_1")):
        one.event("deliver", agent, f"soup#{number}", "window", reward=1.0)
    one.event("deliver", "agent_1", "soup#9", "window", reward=0.0)
    metrics = deliveries(team([one]), QUICK)
    assert values(metrics, "deliveries") == {("agent_0", ""): 3.0, ("agent_1", ""): 1.0}
    assert values(metrics, "delivery_share")["agent_0", ""] == 0.75
    assert values(metrics, "deliveries_gini")["", ""] == 0.25
    assert values(metrics, "deliveries_unpaid")["", ""] == 1.0, "a soup that pays nothing is not a delivery"


def test_gini_refuses_negatives_unless_told_what_they_mean():
    with pytest.raises(ValueError, match="negative"):
        gini([-5, 0, 10])


def test_gini_does_not_depend_on_order_or_scale():
    amounts = np.random.default_rng(0).exponential(size=12)
    assert gini(amounts) == pytest.approx(gini(amounts[::-1] * 1000))


def test_forced_coordination_has_four_transfers_a_soup(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    one.soup(2, "agent_0", "agent_1")
    group = team([one])
    metrics = handoffs(group, QUICK)
    assert values(metrics, "handoffs_per_soup")["", ""] == 4.0
    assert values(metrics, "handoffs_per_soup")["", "counter"] == 4.0
    assert values(metrics, "handoffs_per_soup")["", "pot"] == 0.0
    assert values(metrics, "handoffs_given") == {("agent_0", "agent_1"): 8.0, ("agent_1", "agent_0"): 0.0}
    assert values(metrics, "handoffs_in_soups")["", ""] == 1.0
    assert [c.passed for c in transfer_check(group)] == [True]


def test_the_transfer_check_goes_red(team, tape):
    """A soup that one agent made alone cannot happen in Forced Coordination."""
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    one.soup(2, "agent_1", "agent_1")
    [check] = transfer_check(team([one]))
    assert check.passed is False
    assert "1 of 2 soups" in check.detail


def test_the_transfer_check_goes_red_when_soups_are_paid_but_not_seen(team, tape):
    one = tape()
    one.step(reward=1.0)
    [check] = transfer_check(team([one]))
    assert check.passed is False


def test_the_transfer_check_is_open_without_soups_and_absent_elsewhere(team, tape):
    assert [c.passed for c in transfer_check(team([tape()]))] == [None]
    assert transfer_check(team([tape()], game="overcooked/cramped_room")) == []


def test_pot_mediated_and_plated_handoffs(team, tape):
    """agent_0 loads the pot, agent_1 plates and agent_0 delivers: three through the pot and one plated soup."""
    one = tape()
    onions = ["onion#1", "onion#2", "onion#3"]
    for onion in onions:
        one.event("pickup", "agent_0", onion, "dispenser")
        one.event("pot", "agent_0", onion, "pot")
    one.event("pickup", "agent_1", "dish#1", "dispenser")
    one.event("plate", "agent_1", "soup#1", "pot", parts=[*onions, "dish#1"])
    one.event("drop", "agent_1", "soup#1", "counter")
    one.event("pickup", "agent_0", "soup#1", "counter")
    one.event("deliver", "agent_0", "soup#1", "window", reward=1.0, parts=[*onions, "dish#1"])
    metrics = handoffs(team([one], game="overcooked/asymmetric_advantages"), QUICK)
    assert values(metrics, "handoffs") == {("", "counter"): 0.0, ("", "pot"): 3.0, ("", "soup"): 1.0, ("", ""): 4.0}
    assert values(metrics, "plated_delivered")["agent_1", "agent_0"] == 1.0


def test_handoffs_that_reach_no_soup_are_seen(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    for number in range(4):
        one.over_counter("agent_0", "agent_1", f"onion#9{number}")
    metrics = handoffs(team([one]), QUICK)
    assert values(metrics, "handoffs")["", ""] == 8.0
    assert values(metrics, "handoffs_in_soups")["", ""] == 0.5


def test_taking_back_what_one_put_down_is_no_handoff(tape, episode):
    one = tape()
    one.over_counter("agent_0", "agent_0", "onion#1")
    assert trace(episode(one)).transfers == []


def test_handoffs_per_soup_without_soups_are_undefined(team, tape):
    one = tape()
    one.over_counter("agent_0", "agent_1", "onion#1")
    assert values(handoffs(team([one]), QUICK), "handoffs_per_soup")["", ""] is None


def test_step_rewards_must_add_up_to_the_return(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    assert all(c.passed for c in checks(team([one])))
    assert [c.passed for c in checks(team([one], team_return=2.0))] == [True, False]
    one.progress.steps[0].reward = math.nan
    assert [c.passed for c in checks(team([one], team_return=1.0))] == [True, False], "NaN adds up to nothing"


def test_visits_count_steps_by_cell(team, tape, at):
    one = tape()
    one.step(at(1, 1, "MOVE"), at(3, 1, "WAIT"))
    one.step(at(1, 2, "MOVE"), at(3, 1, "WAIT"))
    found = visits(team([one, one]))
    assert found == {"agent_0": {(1, 1): 2, (1, 2): 2}, "agent_1": {(3, 1): 4}}


def test_learning_curve_by_round(episode):
    training = [
        episode(set="train", round=r, seed=10 * r + k, team_return=float(r + k)) for r in range(3) for k in (0, 2)
    ]
    points = learning_curve(training, QUICK)
    assert [(p.round, p.estimate.value, p.estimate.episodes) for p in points] == [(0, 1.0, 2), (1, 2.0, 2), (2, 3.0, 2)]
    assert points[0].estimate.low < 1.0 < points[0].estimate.high


def test_gini_case_file():
    for case in json.loads((Path(__file__).parent / "data" / "inequality_refs.json").read_text()):
        if "gini" in case and isinstance(case["x"], list):
            assert gini(case["x"], negatives=case.get("negatives", "refuse")) == pytest.approx(case["gini"], abs=1e-12)
