"""Shipped guard libraries: they fit the contracts, hide what never works, and can be mined again bit for bit."""

import pytest
from commons_play import CLEAN_UP, HARVEST, library, only, run

from potluck_envs.meltingpot import provider
from potluck_optionlib.burnin import BurninPlan
from potluck_optionlib.burnin import run as play
from potluck_optionlib.commands.remine import replay
from potluck_optionlib.errors import GuardEditedError
from potluck_optionlib.guards import Channel, GuardLibrary
from potluck_optionlib.heldout import hold_out
from potluck_optionlib.mining import mine

GAMES = [CLEAN_UP, HARVEST]
ZAPPING = ["meltingpot/zap/clean_up", "meltingpot/zap/commons_harvest__open"]


@pytest.mark.parametrize("name", [*GAMES, *ZAPPING])
def test_libraries_fit_the_contracts_and_rest_on_solo_and_team_play(name):
    shipped = library(name)
    shipped.check(provider.make(name).contracts_digest)
    assert shipped.certificate is not None
    [burnin] = shipped.certificate.burnins
    assert (burnin.game, burnin.raised, burnin.incomplete) == (name, 0, 0)
    assert min(burnin.solo_episodes, burnin.team_episodes) >= 7
    assert all(guard.support >= shipped.certificate.min_support for guard in shipped.guards)


def test_what_was_mined_is_what_one_would_write_by_hand():
    rules = {
        name: {(g.option, tuple(g.when.items())) for g in library(name).guards if g.channel is Channel.INFERRED}
        for name in GAMES
    }
    here = (("there", "yes"),)
    assert rules == {
        CLEAN_UP: {("go_to_river", here), ("go_to_orchard", here)},
        HARVEST: {("move_to_patch", here), ("leave_patch", here)},
    }


@pytest.mark.parametrize("name", GAMES)
def test_games_that_end_otherwise_share_the_guards_and_zapping_has_its_own(name):
    part = name.partition("/")[2]
    assert provider.guards(f"meltingpot/stochastic/{part}") == provider.guards(name)
    zapping = library(f"meltingpot/zap/{part}")
    assert provider.guards(f"meltingpot/zap/stochastic/{part}") == provider.guards(f"meltingpot/zap/{part}")
    inferred = [
        {(g.option, tuple(g.when.items())) for g in guards.guards if g.channel is Channel.INFERRED}
        for guards in (zapping, library(name))
    ]
    assert inferred[0] == inferred[1]
    assert "Away" in {reason for g in zapping.guards for reason in g.when.values()}


def test_menus_leave_out_the_patch_that_one_is_in():
    game = provider.make(HARVEST)
    game.reset(1)
    guards, world = library(HARVEST), game.world
    while not any(world.cell(agent) in world.place_of for agent in range(7)):
        assert game.steps < 100
        run(game, 5, only("move_to_patch"), seed=game.steps)
    for agent in range(7):
        offered = game.feasible(agent, guards)
        place = world.place_of.get(world.cell(agent))
        going = {i.target for i in offered if i.option == "move_to_patch"}
        assert going == {p.text for p in world.patches if p.name != place}
        assert any(i.option == "leave_patch" for i in offered) is (place is not None)


def test_an_edited_library_is_refused():
    with pytest.raises(GuardEditedError):
        GuardLibrary.parse(provider.guards(CLEAN_UP).replace('"there": "yes"', '"there": "no"', 1))


@pytest.mark.parametrize("name", GAMES)
def test_fresh_play_finds_no_success_under_a_guard(name):
    found = hold_out(library(name), play(provider.make(name), BurninPlan(1, 2, seed=77, horizon=100)))
    assert found.guarded > 3
    assert found.hidden == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GAMES, *ZAPPING])
def test_libraries_are_mined_again_bit_for_bit(name):
    assert mine(replay(library(name))).dump() == provider.guards(name)
