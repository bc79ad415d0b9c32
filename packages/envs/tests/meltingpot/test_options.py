"""Options of both games on the real engine: they do what their names promise, and nobody gets stuck."""

from collections import Counter
from dataclasses import replace

import pytest
from commons_play import CLEAN_UP, HARVEST, ends, events, library, only, play_until_end, run

from potluck_envs.meltingpot import provider
from potluck_envs.meltingpot.clean_up import CLEAN, GROWTH_LIMIT, contracts
from potluck_optionlib.game import NOOP, Activity, Instance
from potluck_optionlib.guards import NO_GUARDS
from potluck_optionlib.menus import one_by_one
from potluck_optionlib.world import cell_of


@pytest.fixture(scope="module")
def cleaning():
    game = provider.make(CLEAN_UP)
    game.reset(3)
    return game, run(game, 80)


@pytest.fixture(scope="module")
def harvesting():
    game = provider.make(HARVEST)
    game.reset(3)
    return game, run(game, 80)


def test_no_option_times_out_or_raises_among_seven_agents(cleaning, harvesting):
    for _, steps in (cleaning, harvesting):
        found = Counter(end.outcome for end in ends(steps))
        assert found.total() > 50
        assert not [outcome for outcome in found if outcome.startswith("raised:")]
        assert found["timeout"] <= 0.02 * found.total()


def test_what_was_cleaned_was_cleaned_by_the_agent(cleaning):
    _, steps = cleaning
    done = [end for end in ends(steps, "clean_dirt") if end.outcome == "success"]
    cleaned = {(step.ended and step.ended[0].start_step, e.agent, (e.x, e.y)) for step in steps for e in step.events}
    by_agent = {(agent, cell) for _, agent, cell in cleaned}
    assert len(done) > 10
    assert all((end.agent, cell_of(end.instance.target)) in by_agent and end.own_changed for end in done)


def test_apples_are_eaten_by_entering_their_cells(harvesting):
    _, steps = harvesting
    eaten = {(e.agent, (e.x, e.y)) for e in events(steps, "eat")}
    done = [end for end in ends(steps, "eat_apple") if end.outcome == "success"]
    assert len(done) > 10
    assert {(end.agent, cell_of(end.instance.target)) for end in done} <= eaten
    assert all(end.own_changed for end in done)
    assert {e.place for e in events(steps, "eat")} <= {f"patch{n}" for n in range(1, 7)}


def test_one_reward_for_each_apple(cleaning, harvesting):
    for _, steps in (cleaning, harvesting):
        assert sum(step.reward for step in steps) == len(events(steps, "eat"))


def test_the_first_step_tells_what_was_there_at_the_start(cleaning, harvesting):
    assert len(events(cleaning[1][:1], "dirt")) == 79
    assert len(events(harvesting[1][:1], "grow")) == 64


def test_a_team_that_never_cleans_earns_nothing():
    game = provider.make(CLEAN_UP)
    game.reset(1)
    steps = run(game, 60, only("eat_apple", "go_to_orchard", "go_to_river"))
    assert sum(step.reward for step in steps) == 0
    assert not events(steps, "grow")


def test_no_apple_grows_before_21_cells_are_clean():
    game = provider.make(CLEAN_UP)
    game.reset(2)
    steps = run(game, 60, only("clean_dirt", "go_to_river"))
    grown = [i for i, step in enumerate(steps) if any(e.kind == "grow" for e in step.events)]
    assert grown
    assert len(events(steps[: grown[0] + 1], "clean")) >= 79 - GROWTH_LIMIT * 147


def test_an_empty_patch_never_recovers(harvesting):
    game = provider.make(HARVEST)
    game.reset(5)
    alive = set(game.world.alive())
    assert len(alive) == 6
    for _ in range(60):
        run(game, 3, only("eat_apple", "move_to_patch"))
        now = set(game.world.alive())
        assert now <= alive
        alive = now
    assert len(alive) < 6


def test_an_agent_aims_turns_and_cleans_the_cell_that_it_names():
    game = provider.make(CLEAN_UP)
    game.reset(0)
    _, end = play_until_end(game, 0, Instance("go_to_river", game.world.river[1].text))
    assert end.outcome == "success"
    for instance in list(game.contracts["clean_dirt"].instances(game.world, 0))[:4]:
        if not game.world.dirty(0, instance):
            continue
        steps, end = play_until_end(game, 0, instance)
        x, y = cell_of(instance.target)
        assert end.outcome == "success"
        assert steps[-1].agents[0].primitive == "FIRE_CLEAN"
        assert steps[-1].agents[0].activity is Activity.INTERACT
        assert (x, y, 0) in {(e.x, e.y, e.agent) for e in steps[-1].events if e.kind == "clean"}


def test_menus_are_what_the_contracts_say_one_by_one(cleaning, harvesting):
    for game, _ in (cleaning, harvesting):
        guards = library(game.spec.name)
        for agent in range(7):
            assert game.feasible(agent, guards) == one_by_one(game, agent, guards)


def test_agents_that_stand_still_are_walked_around():
    game = provider.make(HARVEST)
    game.reset(4)
    for seat in range(1, 7):
        game.begin(seat, NOOP)
    game.begin(0, Instance("move_to_patch", game.world.going[0].target))
    found = []
    while not found:
        step = game.step()
        found = [end for end in step.ended if end.agent == 0]
        assert all(agent.activity is Activity.NOOP for agent in step.agents[1:])
    assert found[0].outcome == "success"


def test_zapping_is_off_unless_asked_for():
    assert "zap" not in provider.make(CLEAN_UP).spec.options
    game = provider.make("meltingpot/zap/commons_harvest__open")
    assert "zap" in game.spec.options
    game.reset(0)
    steps = run(game, 80, only("zap", "move_to_patch", "wait"), seed=1)
    assert [end for end in ends(steps, "zap") if end.outcome == "success"]
    assert "explicit:Away" in {end.outcome for end in ends(steps)}
    assert {agent.activity for step in steps for agent in step.agents} >= {Activity.INTERACT, Activity.NOOP}


def test_distances_that_the_river_knows_are_those_that_a_search_finds():
    """Steps to poses for cleaning come from the ground's tables where all is open; without them, from the planners'."""

    def searching(world):
        found = contracts(world)
        return [replace(c, executor=replace(c.executor, distances=None)) if c.name == CLEAN else c for c in found]

    quick, slow = provider.make(CLEAN_UP), provider.with_contracts(CLEAN_UP, searching)
    compared = 0
    for game in (quick, slow):
        game.reset(6)
    for seed in range(8):
        assert run(quick, 10, seed=seed) == run(slow, 10, seed=seed)
        for agent in range(7):
            told = [game.entries(agent, NO_GUARDS) for game in (quick, slow)]
            assert told[0] == told[1]
            compared += sum(instance.option == CLEAN for instance, _ in told[0])
    assert compared > 50
