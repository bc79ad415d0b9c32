"""Paths, roles, division of labour, soup shares and interdependence, worked out by hand."""

import numpy as np
import pytest

from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.behaviour import behaviour
from potluck_audit.metrics.interdependence import classify, interdependence
from potluck_audit.metrics.labour import information, labour
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.metrics.options import jensen_shannon
from potluck_audit.metrics.paths import paths
from potluck_audit.metrics.roles import clusters, matched_agreement, role_names, roles, roles_across
from potluck_audit.metrics.soups import soup_shares, soup_work

QUICK = Intervals(resamples=200)
PAPER = ([33.42, 35.58, 6.12, 4.36, 5.91, 4.18, 10.43], [5.22, 3.84, 5.31, 3.72, 6.67, 3.58, 71.66])
"""Paper 1, figure 1: option shares of two agents on Asymmetric Advantages."""


def values(metrics, name):
    return {(m.agent, m.key): m.estimate.value for m in metrics if m.name == name}


def played(tape, first, second):
    """An episode in which each agent plays the options of its text, one step each."""
    one, options = tape(), {"o": "pick_onion", "p": "place_in_pot", "d": "pick_dish", "w": "wait"}
    for agent, letters in (("agent_0", first), ("agent_1", second)):
        for letter in letters:
            one.option(agent, options[letter], 1)
    return one


# ---- paths


def test_path_lengths_count_changes_of_cell(team, tape, at):
    one = tape()
    for x, y in ((1, 1), (1, 2), (1, 2), (1, 1), (2, 1)):
        one.step(at(x, y, "MOVE"), at(3, 3, "WAIT"))
    found = paths(team([one]), QUICK)
    assert values(found, "path_length") == {("agent_0", ""): 3.0, ("agent_1", ""): 0.0}
    assert values(found, "distinct_cells") == {("agent_0", ""): 3.0, ("agent_1", ""): 1.0}


def test_paths_with_a_missing_step_are_undefined(team, tape, at):
    one, gap = tape(), tape()
    one.event("pickup", "agent_0", "onion#1", "dispenser")
    gap.step(at(1, 1, "MOVE"), at(1, 1, "MOVE"))
    gap.step(at(2, 1, "MOVE"), at(1, 1, "MOVE")).step = 5
    for broken in (one, gap):
        assert set(values(paths(team([broken]), QUICK), "path_length").values()) == {None}


# ---- division of labour


def test_information_with_equal_amounts_is_the_published_divergence():
    shares = np.array(PAPER) / np.array(PAPER).sum(axis=1, keepdims=True)
    assert information(shares) == pytest.approx(jensen_shannon(PAPER), abs=1e-12)
    assert information(shares) == pytest.approx(0.375, abs=5e-4)
    assert information(shares, "per_option") == pytest.approx(0.163, abs=5e-4)
    assert information(shares, "per_agent") == pytest.approx(0.375, abs=5e-4), "two equal agents have one bit"


def test_information_is_the_definition():
    joint = np.random.default_rng(0).random((3, 5))
    p = joint / joint.sum()
    outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    assert information(joint) == pytest.approx((p * np.log2(p / outer)).sum(), abs=1e-12)


def test_information_reaches_its_ends():
    assert information(np.eye(4) * 3) == 2.0
    assert information(np.eye(4), "per_option") == information(np.eye(4), "per_agent") == 1.0
    assert information(np.ones((4, 6))) == 0.0
    assert np.isnan(information([[1, 2], [0, 0]])), "an agent that never acted"
    assert np.isnan(information([[1.0, 0.0], [1.0, 0.0]], "per_option")), "one option alone has no entropy"


def test_labour_weighs_agents_by_what_they_chose_and_both_ways(team, tape):
    one = tape()
    for agent, walk in (("agent_0", 19), ("agent_1", 1)):
        one.option(agent, "pick_onion", walk)
        one.option(agent, "wait", 1)
    metrics, _ = labour(team([one]), QUICK)
    assert values(metrics, "option_information_decisions")["", ""] == 0.0
    by_time = values(metrics, "option_information_time")["", ""]
    assert by_time == pytest.approx(float(information([[19, 1], [1, 1]])))
    assert by_time > 0


def test_labour_that_lasts_exceeds_its_baseline_and_one_that_changes_seats_does_not(team, tape):
    lasting = team([played(tape, "oooopw", "dddddw") for _ in range(12)])
    changing = team([played(tape, *(["oooopw", "dddddw"][:: 1 if e % 2 else -1])) for e in range(12)])
    metrics, tests = labour(lasting, QUICK)
    chance = values(metrics, "option_information_decisions_baseline")["", ""]
    assert values(metrics, "option_information_decisions")["", ""] > 3 * chance
    assert tests["option_information_decisions"] < 0.05
    metrics, tests = labour(changing, QUICK)
    assert values(metrics, "option_information_decisions")["", ""] == 0.0
    assert tests["option_information_decisions"] == 1.0


def test_the_baseline_shows_the_bias_of_few_decisions(team, tape):
    """Agents that draw from one distribution: I is positive, and no more than its baseline says."""
    rng = np.random.default_rng(5)
    deals = [["".join(rng.choice(list("opdw"), size=6)) for _ in range(2)] for _ in range(6)]
    group = team([played(tape, *deal) for deal in deals])
    metrics, tests = labour(group, QUICK)
    assert values(metrics, "option_information_decisions")["", ""] > 0
    [chance] = [m.estimate for m in metrics if m.name == "option_information_decisions_baseline" and m.key == ""]
    assert values(metrics, "option_information_decisions")["", ""] <= chance.high
    assert tests["option_information_decisions"] > 0.05


def test_labour_of_one_episode_has_a_value_and_no_test(team, tape):
    metrics, tests = labour(team([played(tape, "oo", "dd")]), QUICK)
    assert [m.estimate for m in metrics if (m.name, m.key) == ("option_information_time", "")] == [(1.0, None, None, 1)]
    assert set(values(metrics, "option_information_time_baseline").values()) == {None}
    assert set(tests.values()) == {None}


# ---- roles


def test_roles_part_where_the_stated_distance_is_exceeded():
    assert list(clusters(np.array(PAPER))) == [0, 1], "published agents are .612 apart"
    assert list(clusters(np.array([[9.0, 1.0], [8.0, 2.0], [0.0, 0.0], [1.0, 9.0]]))) == [0, 0, -1, 1]
    assert list(clusters(np.zeros((2, 3)))) == [-1, -1]
    assert list(clusters(np.array([[0.0, 2.0]]))) == [0]


def test_roles_are_called_by_what_fills_half_of_the_time():
    weights = np.array([[5.0, 4.0, 1.0], [0.0, 3.0, 3.0]])
    assert role_names(weights, np.array([0, 1]), ("a", "b", "c")) == ["a", "b"]
    alike = np.array([[6.0, 4.0, 0.0], [6.0, 0.0, 4.0]])
    assert role_names(alike, np.array([0, 1]), ("a", "b", "c")) == ["a+b", "a+c"], "told apart by the next option"


def test_roles_that_last(team, tape):
    metrics, tests = roles(team([played(tape, "ooop", "dddw") for _ in range(8)]), QUICK)
    shares = values(metrics, "role_share")
    assert shares["agent_0", "pick_onion"] == shares["agent_1", "pick_dish"] == 1.0
    assert values(metrics, "roles_per_episode")["", ""] == 2.0
    assert values(metrics, "role_persistence")["", "episodes"] == 1.0
    assert values(metrics, "role_persistence_baseline")["", "episodes"] == pytest.approx(0.5, abs=0.05)
    assert tests["role_persistence"] < 0.05


def test_roles_that_change_seats_do_not_persist(team, tape):
    """Seats change in every other of four episodes: of six pairs two agree."""
    pairs = [("ooop", "dddw"), ("dddw", "ooop")] * 2
    metrics, tests = roles(team([played(tape, *pair) for pair in pairs]), QUICK)
    assert values(metrics, "role_persistence")["", "episodes"] == pytest.approx(2 / 6)
    assert values(metrics, "role_share")["agent_0", "pick_onion"] == 0.5
    assert tests["role_persistence"] > 0.2


def test_one_role_for_everybody_persists_trivially(team, tape):
    metrics, tests = roles(team([played(tape, "ow", "ow") for _ in range(5)]), QUICK)
    assert values(metrics, "role_persistence")["", "episodes"] == 1.0
    assert values(metrics, "role_persistence_baseline")["", "episodes"] == 1.0
    assert tests["role_persistence"] == 1.0


def test_an_agent_that_never_acted_has_no_role(team, tape):
    metrics, tests = roles(team([played(tape, "oo", "") for _ in range(3)]), QUICK)
    assert values(metrics, "role_share") == {("agent_0", "pick_onion"): 1.0, ("agent_1", "pick_onion"): None}
    assert values(metrics, "roles_per_episode")["", ""] == 1.0
    metrics, tests = roles(team([played(tape, "oo", "dd")]), QUICK)
    assert values(metrics, "role_persistence")["", "episodes"] is None, "one episode"
    assert tests["role_persistence"] is None


def test_matching_finds_the_same_division_in_other_seats():
    assert matched_agreement([0, 1, 1, 2], [2, 1, 0, 1]) == 1.0
    assert matched_agreement([0, 0, 0, 0], [0, 1, 1, 1]) == 0.25
    assert matched_agreement([-1, 0], [-1, 0]) == 0.5, "no role is not a common role"


def test_roles_across_teams(team, tape):
    """Every seed divides the work, in other seats each: matched agreement 1, by seats 2 of 6 pairs."""
    pairs = [("ooop", "dddw"), ("dddw", "ooop")] * 2
    teams = [team([played(tape, *pair)] * 2, f"seed {n}") for n, pair in enumerate(pairs)]
    found = roles_across(teams, QUICK)
    assert values(found, "role_agreement") == pytest.approx({("", "matched"): 1.0, ("", "seats"): 2 / 6})
    chance = values(found, "role_agreement_baseline")["", "matched"]
    assert 0.5 < chance < 1.0, "matching alone makes agreement"
    # Of the 70 ways to deal four and four roles to four teams, 16 give every team one of each.
    assert values(found, "p_value")["", "role_agreement_matched"] == pytest.approx(16 / 70, abs=0.06)
    assert {m.estimate.episodes for m in found} == {4}


@pytest.mark.parametrize(
    ("change", "what"), [({"library_digest": "f" * 64}, "libraries"), ({"game": "overcooked/cramped_room"}, "games")]
)
def test_teams_that_cannot_be_compared_are_refused(team, tape, change, what):
    ours, theirs = team([played(tape, "o", "d")]), team([played(tape, "o", "d")], **change)
    with pytest.raises(InvalidRequest, match=what):
        roles_across([ours, theirs], QUICK)


def test_one_team_and_teams_without_decisions_are_refused(team, tape):
    with pytest.raises(InvalidRequest, match="two teams"):
        roles_across([team([played(tape, "o", "d")])], QUICK)
    with pytest.raises(InvalidRequest, match="no decision"):
        roles_across([team([1.0]), team([1.0])], QUICK)


# ---- soups


def test_shares_of_a_forced_coordination_soup(team, tape):
    """The cook does all six steps of making; the four fetches are the giver's."""
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    found = soup_shares(team([one]), QUICK)
    assert values(found, "soup_share") == {
        ("agent_0", "making"): 0.0, ("agent_1", "making"): 1.0,
        ("agent_0", "chain"): 0.4, ("agent_1", "chain"): 0.6,
    }  # fmt: skip
    assert values(found, "soups_together") == {("", "making"): 0.0, ("", "chain"): 1.0}
    assert values(found, "soups_alone")["agent_1", "making"] == 1.0
    gini = values(found, "soup_share_gini")
    assert gini["", "making"] == 0.5
    assert gini["", "chain"] == pytest.approx(0.1)


def test_a_soup_through_the_pot_is_shared(team, tape):
    """agent_0 fetches and pots, agent_1 cooks, plates and delivers: half of six steps each."""
    one, onions = tape(), ["onion#1", "onion#2", "onion#3"]
    for onion in onions:
        one.event("pickup", "agent_0", onion, "dispenser")
        one.event("pot", "agent_0", onion, "pot")
    one.event("cook", "agent_1", "soup#1", "pot", parts=onions)
    one.event("pickup", "agent_1", "dish#1", "dispenser")
    one.event("plate", "agent_1", "soup#1", "pot", parts=[*onions, "dish#1"])
    one.event("deliver", "agent_1", "soup#1", "window", reward=1.0)
    [work] = soup_work(team([one]).episodes[0])
    assert work.making == ("agent_0",) * 3 + ("agent_1",) * 3
    found = soup_shares(team([one]), QUICK)
    assert values(found, "soup_share")["agent_0", "making"] == 0.5
    assert values(found, "soup_share")["agent_0", "chain"] == pytest.approx(0.6)


def test_a_soup_that_pays_nothing_is_none_and_no_soup_has_no_shares(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1", reward=0.0)
    found = soup_shares(team([one]), QUICK)
    assert set(values(found, "soup_share").values()) == {None}
    assert set(values(found, "soups_together").values()) == {None}


# ---- interdependence


def kinds(team, tape):
    return [kind for _, kind in classify(team([tape]).episodes[0])]


def test_hand_offs_of_a_delivered_soup_are_constructive(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1", "agent_0")
    assert kinds(team, one) == ["constructive"] * 5, "three onions, a dish, and the soup that comes back is new"
    found = interdependence(team([one]), QUICK)
    assert values(found, "interdependence_per_soup")["", "constructive"] == 5.0
    assert values(found, "interdependence_share")["", "constructive"] == 1.0


def test_an_object_that_comes_back_loops(team, tape):
    one = tape()
    one.over_counter("agent_0", "agent_1", "onion#9")
    one.event("drop", "agent_1", "onion#9", "counter")
    one.event("pickup", "agent_0", "onion#9", "counter")
    assert kinds(team, one) == ["looping", "looping"]


def test_a_round_trip_before_a_delivery_is_cut_out(team, tape):
    """agent_0 to agent_1 and back and again: two loop, the third brings the onion to its soup."""
    one, onion = tape(), "onion#1"
    one.event("pickup", "agent_0", onion, "dispenser")
    for agent in ("agent_0", "agent_1", "agent_0"):
        other = "agent_1" if agent == "agent_0" else "agent_0"
        one.event("drop", agent, onion, "counter")
        one.event("pickup", other, onion, "counter")
    one.event("pot", "agent_1", onion, "pot")
    one.event("plate", "agent_1", "soup#1", "pot", parts=[onion, "dish#1"])
    one.event("deliver", "agent_1", "soup#1", "window", reward=1.0)
    assert kinds(team, one) == ["looping", "looping", "constructive"]


def test_potting_for_the_giver_is_no_loop(team, tape):
    """agent_0 hands an onion over, agent_1 pots it, agent_0 plates and delivers: both transfers serve."""
    one = tape()
    one.over_counter("agent_0", "agent_1", "onion#1")
    one.event("pot", "agent_1", "onion#1", "pot")
    one.event("plate", "agent_0", "soup#1", "pot", parts=["onion#1", "dish#1"])
    one.event("deliver", "agent_0", "soup#1", "window", reward=1.0)
    assert kinds(team, one) == ["constructive", "constructive"]


def test_what_reaches_no_delivery_is_irrelevant_and_what_pays_nothing_not_constructive(team, tape):
    one = tape()
    one.over_counter("agent_0", "agent_1", "onion#7")
    one.soup(1, "agent_0", "agent_1", reward=0.0)
    assert kinds(team, one) == ["irrelevant"] + ["non_constructive"] * 4
    found = interdependence(team([one]), QUICK)
    assert values(found, "interdependence_share")["", "non_constructive"] == 0.8
    assert values(found, "interdependence_per_soup")["", "constructive"] is None, "no soup was delivered"


# ---- all rows


def test_tests_of_a_set_are_corrected_together(team, tape):
    group = team([played(tape, "oooopw", "dddddw") for _ in range(8)])
    rows = behaviour(group, QUICK)
    raw, corrected = values(rows, "p_value"), values(rows, "p_value_holm")
    assert set(raw) == {("", f"option_information_{w}") for w in ("decisions", "time")} | {("", "role_persistence")}
    assert min(corrected.values()) == pytest.approx(3 * min(raw.values()))


def test_rows_are_named_once(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    one.option("agent_0", "pick_onion", 3)
    one.option("agent_1", "wait", 3)
    rows = behaviour(team([one, one]), QUICK)
    names = [(m.name, m.agent, m.key) for m in rows]
    assert len(names) == len(set(names))


def test_no_episode_gives_no_silent_number():
    for metric in behaviour(EpisodeSet("eval/none", []), QUICK):
        assert metric.estimate.value is None
