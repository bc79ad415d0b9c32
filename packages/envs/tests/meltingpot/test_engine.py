"""The real engine: seeds, exact returns to a moment, symbolic state, refusals."""

import random

import pytest

from potluck_envs.errors import EnvError
from potluck_envs.meltingpot.engine import Engine
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
