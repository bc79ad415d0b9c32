"""The real engine: seeds, exact returns to a moment, symbolic state, refusals."""

import platform
import random
import sys

import golden
import pytest

from potluck_envs.errors import EnvError
from potluck_envs.meltingpot.engine import Engine, engine_seed
from potluck_envs.meltingpot.substrates import SUBSTRATES


@pytest.fixture(scope="module", params=sorted(SUBSTRATES))
def engine(request):
    engine = Engine(request.param)
    yield engine
    engine.close()


def joint(engine, rng):
    return [rng.choice(engine.substrate.actions) for _ in range(engine.substrate.agents)]


def play(engine, rng, steps):
    return [engine.step(joint(engine, rng)) for _ in range(steps)]


def test_the_same_seed_gives_the_same_episode_after_a_restart_and_another_seed_another_one(engine):
    first = engine.reset(7), *play(engine, random.Random(1), 300)
    again = engine.reset(7), *play(engine, random.Random(1), 300)
    other = engine.reset(8), *play(engine, random.Random(1), 300)
    assert first == again
    assert len({frame.state_bytes() for frame in first} & {frame.state_bytes() for frame in other}) == 0


def test_a_moment_can_be_gone_on_from_any_number_of_times(engine):
    rng = random.Random(2)
    engine.reset(3)
    play(engine, rng, 150)
    moment = engine.moment()
    after = play(engine, random.Random(5), 100)
    for _ in range(2):
        engine.go_to(moment)
        assert engine.frame == moment.frame
        assert play(engine, random.Random(5), 100) == after
    engine.go_to(moment)
    assert play(engine, random.Random(6), 100) != after


def test_a_reseed_changes_what_follows_and_equal_ones_equally(engine):
    engine.reset(3)
    play(engine, random.Random(2), 120)
    moment = engine.moment()
    futures = []
    for seed in (None, 1, 1, 2):
        engine.go_to(moment)
        if seed is not None:
            engine.reseed(seed)
        futures.append(play(engine, random.Random(9), 200))
    assert futures[1] == futures[2]
    assert futures[0] != futures[1] != futures[3]
    moment = engine.moment()
    after = play(engine, random.Random(4), 20)
    engine.reset(99)
    play(engine, random.Random(4), 3)
    engine.go_to(moment)
    assert play(engine, random.Random(4), 20) == after, "a moment keeps its reseeds"


@pytest.mark.parametrize("actions", [["NOOP"] * 6, ["NOOP"] * 8, ["NOOP"] * 6 + ["JUMP"], []])
def test_a_joint_action_that_does_not_fit_is_refused_and_changes_nothing(engine, actions):
    before = engine.reset(1)
    with pytest.raises(EnvError, match="actions:"):
        engine.step(actions)
    assert engine.frame == before


def test_an_unknown_substrate_is_refused_with_the_known_ones():
    with pytest.raises(EnvError, match="clean_up"):
        Engine("clean_upp")


GOLDEN = {
    "clean_up": "9c60d5c289887e224ad3fcbc7fbcb08430f06df33b5d785ed59d2e0783ae19ef",
    "commons_harvest__open": "97d811e347495cd7485ba8c2046641d62a6d65ca3068e0cdaf979e6ce4f83ca2",
}


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="of one build of the engine")
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_episode_of_a_seed_is_the_same_on_every_python_and_in_every_process(name):
    assert golden.digest(name) == GOLDEN[name]


def test_neighbouring_seeds_share_no_start_and_large_seeds_stay_apart(engine):
    starts = [engine.reset(seed) for seed in range(40, 52)]
    assert len({frame.poses for frame in starts}) == len(starts)
    large = [0, 5, 2**31 - 2, 2**31 - 1, 2**31, 2**32 + 5, 2**63, -1]
    assert len({engine_seed(seed) for seed in large}) == len(large)
    assert [engine_seed(seed) for seed in large[:3]] == large[:3]
