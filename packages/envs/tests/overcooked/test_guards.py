"""Shipped guard libraries: they fit the contracts, can be mined again, and leave about what a careful hand would."""

import random

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.mine_guards import burnins, mine_layout, plans
from potluck_optionlib.burnin import Burnin, BurninPlan, run
from potluck_optionlib.errors import GuardEditedError
from potluck_optionlib.game import Instance
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.heldout import hold_out
from potluck_optionlib.menus import feasible
from potluck_optionlib.mining import mine
from potluck_optionlib.planners import FAR
from potluck_optionlib.verify import Flaw, rederive

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
    layout, probe = certificate.burnins
    assert [layout.game, probe.game] == [name, f"{name}/probe"]
    for ref, plan in zip(certificate.burnins, plans(name.removeprefix("overcooked/")).values(), strict=True):
        assert (ref.solo_episodes, ref.team_episodes) == (plan.solo_episodes, plan.team_episodes)
        assert (ref.seed, ref.horizon, ref.raised, ref.incomplete) == (plan.seed, plan.horizon, 0, 0)
    digests = {ref.digest for ref in certificate.burnins}
    for guard in library.guards:
        assert guard.support == sum(part.solo + part.team for part in guard.supports)
        assert {part.burnin for part in guard.supports} <= digests
    assert min(guard.support for guard in library.guards) >= certificate.min_support


@pytest.fixture(scope="module")
def again() -> list[Burnin]:
    return burnins("cramped_room")


def test_a_shipped_library_is_mined_again_bit_for_bit(again: list[Burnin]) -> None:
    assert mine(again).dump() == provider.guards("overcooked/cramped_room")


def test_its_certificates_are_rederived_and_wrong_ones_show(again: list[Burnin]) -> None:
    library = shipped("cramped_room")
    assert rederive(library, again) == ()
    guards = (library.guards[0].model_copy(update={"support": 1}), *library.guards[2:])
    wrong = library.model_copy(update={"guards": guards})
    assert {finding.flaw for finding in rederive(wrong, again)} == {Flaw.SUPPORT, Flaw.MISSING}
    assert {finding.flaw for finding in rederive(library, again[:1])} == {Flaw.DIGEST}


def test_a_shipped_library_that_somebody_edited_is_refused() -> None:
    text = provider.guards("overcooked/cramped_room")
    with pytest.raises(GuardEditedError, match="potluck-optionlib remine"):
        GuardLibrary.parse(text.replace('"held": "onion"', '"held": "none"', 1))


def test_mining_is_deterministic() -> None:
    small = BurninPlan(4, 4, seed=3, horizon=120)
    first, second = (mine_layout("cramped_room", small, small).dump() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("layout", FIVE)
def test_fresh_play_finds_next_to_no_success_under_a_guard(layout: str) -> None:
    found = hold_out(shipped(layout), run(make(layout), BurninPlan(4, 6, seed=77)))
    assert found.guarded > 200
    assert found.hidden <= found.guarded / 1000


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


ON_THE_WAY = {"asymmetric_advantages": {"plate_soup", "place_in_pot"}, "forced_coordination": set()}
"""Options that a partner was seen to make possible while a chef walks, so that a pot's present state guards less."""


@pytest.mark.parametrize("layout", ON_THE_WAY)
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
            more += sum(instance.option not in ON_THE_WAY[layout] for instance in set(offered) - wanted)
            game.begin(agent, rng.choice(offered))
        game.step()
    assert more <= 0.15 * hand
