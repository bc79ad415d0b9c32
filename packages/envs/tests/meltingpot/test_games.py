"""The games as the env server sees them: names, conformance, forks, endings, refusals."""

import pickle
import sys

import pytest
from commons_play import CLEAN_UP, HARVEST, run

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import PotluckError
from potluck_envs.conformance import GameConformance, Plan
from potluck_envs.errors import EnvError
from potluck_envs.local import Table
from potluck_envs.meltingpot import provider
from potluck_envs.registry import Registry
from potluck_optionlib.game import Instance

SHORT = Plan(episodes=1, horizon=24)


class TestCleanUp(GameConformance):
    game = CLEAN_UP
    plan = SHORT


class TestHarvest(GameConformance):
    game = HARVEST
    plan = SHORT


def test_games_are_listed_with_their_horizons():
    registry = Registry()
    assert {CLEAN_UP, HARVEST, "meltingpot/zap/clean_up", "meltingpot/stochastic/clean_up"} <= set(registry.names())
    info = {name: registry.library(name).info for name in (CLEAN_UP, HARVEST, "meltingpot/stochastic/clean_up")}
    assert [info[name].default_horizon for name in info] == [150, 400, 5000]
    assert {len(one.agents) for one in info.values()} == {7}
    assert info[CLEAN_UP].reward_unit == "apples"


def test_a_substrate_that_is_not_there_is_refused_with_the_known_names():
    with pytest.raises(PotluckError, match="clean_up"):
        Registry().library("meltingpot/collaborative_cooking")
    with pytest.raises(KeyError, match="commons_harvest__open"):
        provider.make("meltingpot/coins")


def test_actions_for_six_agents_are_refused():
    game = provider.make(CLEAN_UP)
    with pytest.raises(EnvError, match="7 agents"):
        game.world.step(["NOOP"] * 6)


def test_listing_a_game_starts_no_engine_and_loads_neither_tensorflow_nor_jax():
    game = provider.make(HARVEST)
    assert game.world._engine._core is None
    assert not {"tensorflow", "jax"} & set(sys.modules)


@pytest.mark.parametrize("name", [CLEAN_UP, HARVEST])
def test_a_fork_goes_on_exactly_and_reseeds_differ(name):
    game = provider.make(name)
    game.reset(11)
    run(game, 40)
    mark = game.snapshot()
    pickle.dumps(game.world.state_bytes())

    def future(reseed=None):
        other = provider.make(name)
        other.restore(mark)
        if reseed is not None:
            other.reseed(reseed)
        steps = run(other, 60, seed=5)
        return steps, other.state_bytes()

    assert future() == future()
    assert future(1) == future(1)
    assert len({future(n)[1] for n in (1, 2)} | {future()[1]}) == 3
    before = game.state_bytes()
    assert (run(game, 60, seed=5), game.state_bytes()) == future()
    game.restore(mark)
    assert game.state_bytes() != before or game.steps == 40


def test_the_substrates_own_ending_ends_an_episode_and_nothing_is_counted_after_it():
    table = Table()
    start = pb.Start(game="meltingpot/stochastic/commons_harvest__open", seed=2, interface=pb.INTERFACE_NATIVE)
    seats = [pb.SeatBaseline(agent=f"agent_{i}", baseline=pb.BASELINE_NOOP) for i in range(7)]
    start.baselines.extend(seats)
    update = table.send(pb.Command(episode_id="a", start=start))
    assert update.HasField("finished")
    assert 1000 <= update.finished.steps < 5000
    assert not update.finished.truncated
    assert update.finished.steps % 100 in (99, 0)


def test_a_horizon_beyond_what_was_asked_is_never_reached():
    table = Table()
    start = pb.Start(game=CLEAN_UP, seed=2, horizon=33)
    start.baselines.extend(pb.SeatBaseline(agent=f"agent_{i}", baseline=pb.BASELINE_UNIFORM) for i in range(7))
    finished = table.send(pb.Command(episode_id="a", start=start)).finished
    assert (finished.steps, finished.truncated) == (33, True)


def test_busy_agents_and_unknown_targets_are_refused():
    game = provider.make(CLEAN_UP)
    with pytest.raises(ValueError, match="no candidate"):
        game.begin(0, Instance("clean_dirt", "(0,0)"))
