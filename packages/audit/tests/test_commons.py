"""Commons and social outcomes on hand-made events with known right values."""

import json
from pathlib import Path

import numpy as np
import pytest

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.outcomes import equality, outcomes, peace, sustainability
from potluck_audit.metrics.patches import commons, deaths, orchard, patches
from potluck_audit.metrics.river import dirt, river
from potluck_audit.metrics.substrates import Substrate, is_commons

QUICK = Intervals(resamples=200)
HARVEST, CLEANUP = "meltingpot/commons_harvest__open", "meltingpot/clean_up"
REFERENCES = json.loads((Path(__file__).parent / "data" / "inequality_refs.json").read_text())


def values(metrics, name):
    return {(m.agent, m.key): m.estimate.value for m in metrics if m.name == name}


def filmed(tape, steps, events, positions=None):
    """An episode of events (step, kind, agent, x, y[, object]); positions are cells of both agents after each step."""
    film = tape()
    for step in range(steps):
        record = film.step()
        for x, y in positions[step] if positions else ((0, 0), (9, 9)):
            record.agents.add(x=x, y=y)
        for when, kind, agent, x, y, *rest in events:
            if when == step:
                record.events.add(kind=kind, agent=agent, x=x, y=y, object=rest[0] if rest else "")
    return film


def meals(tape, *counts, steps=10):
    eaten = [(s, "eat", f"agent_{a}", s, 5 * a) for a, n in enumerate(counts) for s in range(n)]
    return filmed(tape, steps, eaten)


# ---- social outcomes


def test_social_outcomes_by_hand(team, tape):
    """agent_0 eats at steps 0, 1, 2 and agent_1 at step 0, in 10 steps; nobody is zapped."""
    found = outcomes(team([meals(tape, 3, 1)], game=HARVEST), QUICK)
    assert values(found, "consumption") == {("agent_0", ""): 3.0, ("agent_1", ""): 1.0}
    assert values(found, "consumption_share")["agent_0", ""] == 0.75
    expected = {
        "efficiency": 0.4, "equality": 0.75, "consumption_gini": 0.25, "sustainability": 0.5, "peace": 2.0,
        "max_min": 1.0,
    }  # fmt: skip
    for name, value in expected.items():
        assert values(found, name)["", ""] == pytest.approx(value), name


@pytest.mark.parametrize("case", [c for c in REFERENCES if "gini" in c and isinstance(c["x"], list)])
def test_equality_is_one_minus_gini_and_undefined_for_nothing(case):
    if min(case["x"]) < 0:
        with pytest.raises(ValueError, match="negative"):
            equality(case["x"])
    elif not any(case["x"]):
        assert equality(case["x"]) is None
    else:
        assert equality(case["x"]) == pytest.approx(1 - case["gini"], abs=1e-12)


def test_equality_is_the_published_double_sum():
    amounts = list(np.random.default_rng(2).integers(0, 40, 7).astype(float))
    doubled = sum(abs(a - b) for a in amounts for b in amounts)
    assert equality(amounts) == pytest.approx(1 - doubled / (2 * 7 * sum(amounts)))
    assert equality([0, 0, 0, 6]) == 0.25, "one of N has all: 1/N"


def test_nobody_ate_is_undefined_and_not_equal(team, tape):
    found = outcomes(team([meals(tape, 0, 0)], game=HARVEST), QUICK)
    assert values(found, "equality")["", ""] is None
    assert values(found, "sustainability")["", ""] is None
    assert values(found, "consumption_share")["agent_0", ""] is None
    assert values(found, "efficiency")["", ""] == values(found, "max_min")["", ""] == 0.0


def test_undefined_episodes_are_left_out_and_seen_in_the_count(team, tape):
    found = outcomes(team([meals(tape, 2, 2), meals(tape, 0, 0)], game=HARVEST), QUICK)
    [equal] = [m.estimate for m in found if m.name == "equality"]
    assert (equal.value, equal.episodes) == (1.0, 1)


def test_who_never_ate_has_no_mean_step(team, tape):
    one = team([filmed(tape, 10, [(4, "eat", "agent_0", 1, 1), (8, "eat", "agent_0", 2, 1)])]).episodes[0]
    assert sustainability(one) == 6.0


def test_peace_by_each_substrates_own_time(team, tape):
    zapped = filmed(tape, 10, [(2, "zap", "agent_0", 1, 1, "agent_1")])
    for game, out in ((HARVEST, 4), (CLEANUP, 7)):
        found = outcomes(team([zapped], game=game), QUICK)
        assert values(found, "peace")["", ""] == pytest.approx((20 - out) / 10), "cut at the episode's end"
    assert values(outcomes(team([zapped], game="garden/other"), QUICK), "peace")["", ""] is None


def test_zaps_that_overlap_count_once(team, tape):
    twice = filmed(tape, 10, [(1, "zap", "agent_0", 1, 1, "agent_1"), (3, "zap", "agent_0", 1, 1, "agent_1")])
    assert peace(team([twice]).episodes[0], 4) == pytest.approx((20 - 6) / 10)


def test_games_without_a_commons_have_no_rows(team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    group = team([one])
    assert not is_commons(group)
    assert outcomes(group, QUICK) == commons(group, QUICK) == river(group, QUICK) == []


# ---- patches

NEAR, FAR = [(1, 1), (3, 1)], [(8, 1)]
START = [(0, "grow", "", x, y) for x, y in [*NEAR, *FAR]]


def test_patches_are_components_within_reach(team, tape):
    group = team([filmed(tape, 2, START)])
    assert patches(group) == {(1, 1): 0, (3, 1): 0, (8, 1): 1}


def test_survival_and_deaths_by_hand(team, tape):
    """The far patch dies at step 3; the near one loses an apple, regrows it, and dies at step 8 of 10."""
    eaten = [
        (3, "eat", "agent_0", 8, 1), (2, "eat", "agent_1", 1, 1), (5, "grow", "", 1, 1), (6, "eat", "agent_1", 3, 1),
        (8, "eat", "agent_1", 1, 1),
    ]  # fmt: skip
    found = commons(team([filmed(tape, 10, START + eaten)]), QUICK)
    assert values(found, "patch_death") == {("", "1"): 3.0, ("", "2"): 8.0}
    assert values(found, "patch_death_share") == {("", "1"): 1.0, ("", "2"): 1.0}
    assert values(found, "patches_alive") == {("", "0"): 2.0, ("", "9"): 0.0}
    assert values(found, "patch_survival_area")["", ""] == pytest.approx((3 + 8) / 20)
    assert values(found, "apples_per_patch_step")["", ""] == pytest.approx(4 / 11)


def test_a_patch_that_lives_has_no_time_of_death(team, tape):
    dying = filmed(tape, 10, [*START, (3, "eat", "agent_0", 8, 1)])
    found = commons(team([dying, filmed(tape, 10, START)]), QUICK)
    [first] = [m.estimate for m in found if (m.name, m.key) == ("patch_death", "1")]
    assert (first.value, first.episodes) == (3.0, 1)
    assert values(found, "patch_death")["", "2"] is None
    assert values(found, "patch_death_share") == {("", "1"): 0.5, ("", "2"): 0.0}


def test_a_patch_that_is_empty_for_a_while_was_not_dead(team, tape):
    events = [*START, (3, "eat", "agent_0", 8, 1), (5, "grow", "", 8, 1)]
    one = team([filmed(tape, 10, events)])
    grown = orchard(one.episodes[0], patches(one))
    assert not grown.alive[4, 1]
    assert deaths(grown.alive) == []


def test_apples_that_were_there_before_they_were_told_count_from_the_start(team, tape):
    one = team([filmed(tape, 6, [(4, "eat", "agent_0", 1, 1)])])
    assert values(commons(one, QUICK), "patch_death")["", "1"] == 4.0


def test_restraint_by_hand(team, tape):
    """Beside the last apple at (8,1) agent_0 decides three times: waits, walks on, eats. agent_1 is never near one."""
    positions = [((7, 1), (1, 2))] * 6
    film = filmed(tape, 6, [*START, (5, "eat", "agent_0", 8, 1)], positions)
    for agent, start, duration in (
        ("agent_0", 0, 1), ("agent_0", 1, 2), ("agent_0", 3, 1), ("agent_0", 4, 2), ("agent_1", 1, 5),
    ):  # fmt: skip
        film.progress.options.add(agent=agent, option="go", start_step=start, duration=duration, outcome="success")
    found = values(commons(team([film]), QUICK), "restraint")
    assert found["agent_0", ""] == pytest.approx(2 / 3), "the decision at step 0 has no recorded cell"
    assert found["agent_1", ""] is None, "two apples are left in the near patch"
    assert found["", ""] == pytest.approx(2 / 3)


# ---- the river


def test_dirt_and_cleans_by_hand(team, tape):
    """Two of four cells are dirty; agent_0 cleans both at step 2, one comes back at step 3; agent_1 eats twice."""
    events = [
        (0, "dirt", "", 0, 0), (0, "dirt", "", 1, 0), (2, "clean", "agent_0", 0, 0), (2, "clean", "agent_0", 1, 0),
        (3, "dirt", "", 1, 0), (4, "eat", "agent_1", 5, 5), (4, "eat", "agent_1", 6, 5),
    ]  # fmt: skip
    group = team([filmed(tape, 5, events)])
    assert list(dirt(group.episodes[0], 4)) == [0.5, 0.5, 0.0, 0.25, 0.25]
    found = river(group, QUICK, Substrate(river_cells=4, growth_limit=0.4))
    assert values(found, "dirt_fraction") == pytest.approx({("", ""): 0.3, ("", "0"): 0.5, ("", "4"): 0.25})
    assert values(found, "river_open_share")["", ""] == 0.6
    assert values(found, "cleans") == {("agent_0", ""): 2.0, ("agent_1", ""): 0.0}
    assert values(found, "clean_share")["agent_0", ""] == 1.0
    assert values(found, "cleans_gini")["", ""] == 0.5
    assert values(found, "apples_per_clean")["", ""] == 1.0


def test_without_the_number_of_river_cells_the_fraction_is_undefined(team, tape):
    found = river(team([filmed(tape, 3, [(0, "dirt", "", 0, 0)])]), QUICK)
    assert values(found, "dirt_fraction") == {("", ""): None}
    assert values(found, "river_open_share")["", ""] is None
    assert values(found, "apples_per_clean")["", ""] is None, "nobody cleaned"


def test_a_cell_cleaned_first_was_dirty_from_the_start(team, tape):
    one = team([filmed(tape, 4, [(2, "clean", "agent_0", 0, 0)])]).episodes[0]
    assert list(dirt(one, 2)) == [0.5, 0.5, 0.0, 0.0]


def test_what_no_event_tells_is_unknown_and_not_nothing(team, tape):
    """Cleanup begins with a dirty river: without an event of dirt nobody knows how dirty it is."""
    quiet = team([filmed(tape, 3, [])], game=CLEANUP)
    assert values(river(quiet, QUICK), "dirt_fraction")["", ""] is None
    assert values(river(quiet, QUICK), "clean_share")["agent_0", ""] is None
    assert values(outcomes(quiet, QUICK), "consumption")["agent_0", ""] == 0.0


def test_without_step_records_everything_is_undefined(team):
    blind = team([3.0, 4.0], game=CLEANUP)
    rows = outcomes(blind, QUICK) + river(blind, QUICK)
    assert {"consumption", "equality", "peace", "cleans", "dirt_fraction"} <= {m.name for m in rows}
    assert {m.estimate.value for m in rows} == {None}
