"""The conformance suite: what it says of real games, and that it catches each fault."""

import pytest

from potluck_envs.conformance import GameConformance, Plan, books, branches, menus, seeds
from potluck_envs.conformance.plan import Broken, Player
from potluck_envs.conformance.runner import CHECKS, check, table
from potluck_envs.episode import Episode
from potluck_optionlib.menus import Menu

SHORT = Plan(episodes=2, horizon=40)


class TestRelay(GameConformance):
    game = "relay/two_rooms"


class TestForcedCoordination(GameConformance):
    game = "overcooked/forced_coordination"
    plan = Plan(episodes=2, horizon=80)


class TestCrampedRoom(GameConformance):
    game = "overcooked/cramped_room"
    plan = Plan(episodes=2, horizon=80)


FAULTS = [
    ("diverges_at_step_3", seeds.same_seed_same_trajectory, "step 3"),
    ("depends_on_hash_order", seeds.same_seed_same_trajectory_elsewhere, "another process"),
    ("ignores_the_seed", seeds.different_seeds_differ, "seed does not reach"),
    ("ignores_reseed", seeds.different_seeds_differ, "reseed does not reach"),
    ("reseeds_by_the_clock", branches.reseeded_forks_diverge, "same reseed"),
    ("forgets_randomness", branches.fork_repeats_the_original, "does not repeat the original"),
    ("leaks_through_fork", branches.fork_leaves_the_original_alone, "forked"),
    ("state_is_an_address", branches.replay_repeats_the_digest, "re-execution came to"),
    ("offers_no_wait", menus.menus_hold, "wait"),
    ("empty_menu", menus.menus_hold, "wait"),
    ("guards_see_old_features", menus.menus_hold, "a guard forbids it"),
    ("looking_draws_randomness", menus.looking_changes_nothing, "changed how it goes on"),
    ("begins_anything", menus.protocol_is_strict, "unknown option"),
    ("horizon_off_by_one", books.horizon_is_exact, "step records"),
    ("loses_the_team_reward", books.rewards_add_up, "the team 0.0"),
    ("duration_off_by_one", books.options_leave_no_gap, "starts at"),
    ("primitives_take_two_steps", books.native_steps, "boundaries in 30"),
]


@pytest.mark.parametrize(("fault", "catches", "said"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_each_fault_is_caught_by_its_check(fault, catches, said):
    with pytest.raises(Broken, match=said):
        catches(Player(f"faulty/{fault}", SHORT))


def test_every_check_has_a_fault_that_it_catches():
    controlled = {catches for _, catches, _ in FAULTS} | {menus.refusals}
    assert controlled == set(CHECKS)


def test_a_server_that_takes_any_letter_is_caught(monkeypatch):
    monkeypatch.setattr(Menu, "find", lambda self, letter: 0)
    with pytest.raises(Broken, match="LETTER_NOT_OFFERED was answered with menus"):
        menus.refusals(Player("relay/two_rooms", SHORT))


def test_a_server_that_takes_any_agent_is_caught(monkeypatch):
    def careless(self, choose):
        return dict(zip(self._pending, choose.choices, strict=False))

    monkeypatch.setattr(Episode, "_said", careless)
    with pytest.raises(Broken, match="WRONG_AGENT"):
        menus.refusals(Player("relay/two_rooms", SHORT))


def test_the_number_of_compared_steps_is_reported_and_complete():
    said = seeds.same_seed_same_trajectory(Player("relay/two_rooms", Plan(episodes=3, horizon=50)))
    assert "150 steps compared" in said


def test_the_runner_reports_every_check():
    results = check("faulty/ignores_the_seed", SHORT)
    broken = [result.name for result in results if not result.kept]
    assert broken == ["different seeds differ"]
    text = table("faulty/ignores_the_seed", results)
    assert "FAIL  different seeds differ" in text
    assert f"{len(CHECKS) - 1} of {len(CHECKS)} checks kept" in text
