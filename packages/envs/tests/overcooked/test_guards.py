"""Shipped guard libraries: they fit the contracts, can be mined again, and leave about what a careful hand would."""

import random

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.layout import FAR
from potluck_envs.overcooked.mine_guards import PLAN, mine_layout
from potluck_optionlib.burnin import BurninPlan, run
from potluck_optionlib.game import Instance
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import feasible
from potluck_optionlib.verify import verify

SHIPPED = [name for name in provider.names() if provider.guards(name)]
FIVE = ["asymmetric_advantages", "coordination_ring", "counter_circuit_o_1order", "cramped_room", "forced_coordination"]


def shipped(layout: str) -> GuardLibrary:
    return GuardLibrary.parse(provider.guards(f"overcooked/{layout}"))


def test_the_layouts_of_the_paper_and_their_kin_have_libraries() -> None:
    assert {f"overcooked/{name}" for name in FIVE} <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_libraries_fit_the_contracts_and_their_certificates_hold(name: str) -> None:
    library = GuardLibrary.parse(provider.guards(name))
    library.check(provider.make(name).contracts_digest)
    certificate = library.certificate
    assert certificate is not None
    assert certificate.successes_under_guards == 0
    assert [ref.game for ref in certificate.burnins] == [name, f"{name}/probe"]
    assert certificate.burnins[0].team_episodes == PLAN.team_episodes
    assert min(guard.support for guard in library.guards) >= certificate.min_support


def test_mining_is_deterministic() -> None:
    small = BurninPlan(4, 4, seed=3, horizon=120)
    first, second = (mine_layout("cramped_room", small, small).dump() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("layout", FIVE)
def test_fresh_play_finds_next_to_no_success_under_a_guard(layout: str) -> None:
    found = verify(shipped(layout), run(make(layout), BurninPlan(4, 6, seed=77)))
    assert found.checked > 200
    assert found.successes <= found.checked / 1000


def test_a_soup_can_be_started_where_no_chef_could_start_one_alone() -> None:
    library = shipped("forced_coordination")
    assert not library.forbids("start_cooking", {"held": "none", "tgt_pot_state": "onion3"})
    for state in ("empty", "onion1", "onion2", "cooking", "ready"):
        assert library.forbids("start_cooking", {"held": "none", "tgt_pot_state": state})


def by_hand(game: OvercookedGame, agent: int) -> set[Instance]:
    """The menu that somebody who knows the rules would write."""
    layout, engine = game.layout, game._engine
    held, pose = engine.held(agent), game._kitchen.poses[agent]
    offered = {Instance("wait")}
    for target in layout.targets:
        if layout.solo(target.index)[pose] >= FAR:
            continue
        contents, tick = engine.soup(target.cell) if target.kind == "P" else ((), -1)
        item = engine.item(target.cell)
        options = {
            "O": ["pick_onion"] if held == "none" else [],
            "D": ["pick_dish"] if held == "none" else [],
            "S": ["deliver"] if held == "soup" else [],
            "X": (["drop_held"] if item == "none" else [])
            if held != "none"
            else (["pick_from_counter"] if item != "none" else []),
            "P": {
                "onion": ["place_in_pot"] if tick < 0 and len(contents) < 3 else [],
                "none": ["start_cooking"] if tick < 0 and len(contents) == 3 else [],
                "dish": ["plate_soup"] if tick >= 0 else [],
            }.get(held, []),
        }[target.kind]
        offered |= {Instance(option, target.text) for option in options}
    return offered


@pytest.mark.parametrize("layout", ["asymmetric_advantages", "forced_coordination"])
def test_menus_hold_all_that_a_careful_hand_would_offer_and_little_more(layout: str) -> None:
    game, library, rng = make(layout), shipped(layout), random.Random(0)
    game.reset(0)
    hand = more = 0
    while game.steps < 800:
        for agent in game.idle():
            offered = feasible(game, agent, library)
            wanted = by_hand(game, agent)
            assert wanted <= set(offered)
            hand += len(wanted)
            more += len(set(offered) - wanted)
            game.begin(agent, rng.choice(offered))
        game.step()
    assert more <= 0.15 * hand
