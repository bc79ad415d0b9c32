"""Agents are told what their own window shows and what they remember of it, and nothing else."""

import random

import pytest
from commons_play import CLEAN_UP, HARVEST, run

from potluck_envs.meltingpot import provider
from potluck_envs.meltingpot.sight import Sight, gone, looked
from potluck_optionlib.planners import Pose


def test_memory_keeps_what_was_last_seen():
    sight = looked(Sight((1, 1, 0), Pose(1, 1, "N")), (1, 1, 0), Pose(1, 1, "N"), 0b0011, 0b0101, 0)
    assert (sight.seen, sight.apples) == (0b0011, 0b0001)
    sight = looked(sight, (2, 1, 0), Pose(2, 1, "N"), 0b0110, 0b1010, 0b0100)
    assert (sight.seen, sight.apples, sight.dirt) == (0b0111, 0b0011, 0b0100)
    away = gone(sight)
    assert (away.away, away.view, away.stance, away.apples) == (True, 0, (2, 1, 0), 0b0011)


@pytest.mark.parametrize("name", [CLEAN_UP, HARVEST])
def test_what_an_agent_has_never_seen_changes_no_word_of_what_it_is_told(name):
    game = provider.make(name)
    game.reset(2)
    run(game, 30)
    world, rng = game.world, random.Random(0)
    state = world.state
    for agent in range(7):
        told = world.observe(agent)
        view = state.sights[agent].view
        for _ in range(5):
            hidden = rng.getrandbits(len(world.ground.cells)) & ~view
            # Other apples and other dirt wherever the agent does not look.
            world._state = state._replace(apples=state.apples & view | hidden, dirt=state.dirt & view | hidden)
            assert world.observe(agent) == told
        world._state = state
    # A control: the observation does depend on what is in the window.
    agent = next(a for a in range(7) if state.sights[a].view & (state.apples | state.dirt))
    blind = state.sights[agent]._replace(view=0, apples=0, dirt=0)
    told = world.observe(agent)
    world._state = state._replace(sights=(*state.sights[:agent], blind, *state.sights[agent + 1 :]))
    assert world.observe(agent) != told


@pytest.mark.parametrize("name", [CLEAN_UP, HARVEST])
def test_memories_are_those_of_a_careful_bookkeeper(name):
    game = provider.make(name)
    game.reset(9)
    world = game.world
    known = [{} for _ in range(7)]

    def look():
        for agent, sight in enumerate(world.state.sights):
            for cell in world.ground.listed(sight.view):
                known[agent][cell] = (cell in world.state.frame.apples, cell in world.state.frame.dirt)

    look()
    for _ in range(25):
        run(game, 1)
        look()
    for agent, sight in enumerate(world.state.sights):
        assert sight.seen == world.ground.mask(known[agent])
        assert sight.apples == world.ground.mask(cell for cell, (apple, _) in known[agent].items() if apple)
        assert sight.dirt == world.ground.mask(cell for cell, (_, dirt) in known[agent].items() if dirt)


def test_texts_are_short_and_keys_coarse():
    for name in (CLEAN_UP, HARVEST):
        game = provider.make(name)
        game.reset(1)
        keys = set()
        for _ in range(8):
            run(game, 5)
            for agent in range(7):
                told = game.observe(agent)
                assert len(told.text.split()) <= 30
                keys.add(told.state_key)
        assert 1 < len(keys) < 40
