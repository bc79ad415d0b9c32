"""Engines in processes of their own: what kills one costs one episode, and nobody else notices."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from potluck_envs.errors import EngineBuildTimeout, EngineCrashed, EngineTimeout
from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.engine import Engine
from potluck_envs.meltingpot.process import ProcessCore
from potluck_envs.meltingpot.substrates import SUBSTRATES, substrate

HARVEST = "commons_harvest__open"


def moves(name, rng, steps):
    known = substrate(name)
    return [bytes(rng.randrange(len(known.actions)) for _ in range(known.agents)) for _ in range(steps)]


@pytest.fixture
def core():
    core = ProcessCore(substrate(HARVEST), None, False)
    core.start(1)
    yield core
    core.close()


@pytest.mark.parametrize("name", sorted(SUBSTRATES))
def test_an_engine_in_its_process_plays_what_one_in_this_process_plays(name):
    here, there = (kind(substrate(name), None, False) for kind in (Core, ProcessCore))
    assert here.start(5) == there.start(5)
    for move in moves(name, random.Random(5), 120):
        assert here.advance(move) == there.advance(move)
    assert (here.observe("WORLD.LAYER") == there.observe("WORLD.LAYER")).all()


def test_a_fork_goes_on_exactly_and_alone(core):
    for move in moves(HARVEST, random.Random(1), 60):
        core.advance(move)
    fork, reseeded, again, other = (core.fork() for _ in range(4))
    for twin, seed in ((reseeded, 7), (again, 7), (other, 8)):
        twin.reseed(seed)
    following = moves(HARVEST, random.Random(2), 150)
    original = [core.advance(move) for move in following]
    assert [fork.advance(move) for move in following] == original
    futures = [[twin.advance(move) for move in following] for twin in (reseeded, again, other)]
    assert futures[0] == futures[1] != futures[2]
    assert futures[0] != original


def test_an_engine_that_is_killed_is_told_and_the_others_play_on(core):
    other = core.fork()
    os.kill(core.pid, signal.SIGKILL)
    with pytest.raises(EngineCrashed, match="start the episode again with the same seed"):
        core.advance(bytes(7))
    other.advance(bytes(7))
    ProcessCore(substrate(HARVEST), None, False).start(2)


def test_an_engine_that_hangs_is_ended_in_time(core):
    hanging = core.fork(timeout=0.5)
    os.kill(hanging.pid, signal.SIGSTOP)
    with pytest.raises(EngineTimeout):
        hanging.advance(bytes(7))
    with pytest.raises(EngineCrashed):
        hanging.advance(bytes(7))
    core.advance(bytes(7))


LUA_ERROR = """
import socket, sys
import numpy as np
from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.nursery import serve
from potluck_envs.meltingpot.substrates import substrate
core = Core(substrate("commons_harvest__open"), None, False)
core._joint = lambda actions: np.full(len(core._raw.action_discrete_names()), 99, np.int32)
serve(core, socket.socket(fileno=int(sys.argv[1])))
"""


def test_a_lua_error_ends_the_engines_process_and_is_told():
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [sys.executable, "-c", LUA_ERROR, str(theirs.fileno())], pass_fds=[theirs.fileno()], stderr=errors
        )
        theirs.close()
        core = ProcessCore.of(ours, child.pid, errors, 100)
        core.start(1)
        with pytest.raises(EngineCrashed, match="engine died: ERROR: ") as told:
            core.advance(bytes(7))
        assert child.wait() == -signal.SIGABRT, "the engine cannot be caught: it aborts"
        assert "/" not in told.value.message.split("died:")[1], "no folders of this machine on the wire"


def test_a_build_that_takes_long_is_said_to_be_no_hang(monkeypatch):
    """The nursery stands still until three signs have come."""
    from potluck_envs import patience
    from potluck_envs.meltingpot import process

    ProcessCore(substrate(HARVEST), None, False)
    nursery = process._nursery._process.pid
    signs = []

    def sign():
        signs.append(1)
        if len(signs) == 3:
            os.kill(nursery, signal.SIGCONT)

    monkeypatch.setattr(patience, "_tell", sign)
    monkeypatch.setattr(process, "_SIGN_SECONDS", 0.1)
    os.kill(nursery, signal.SIGSTOP)
    ProcessCore(substrate(HARVEST), None, False).start(1)
    assert len(signs) >= 3


def test_a_build_beyond_its_own_limit_is_told_with_the_cure_and_the_next_one_works(monkeypatch):
    from potluck_envs import patience
    from potluck_envs.meltingpot import process

    ProcessCore(substrate(HARVEST), None, False)
    monkeypatch.setattr(patience, "_limits", patience.Limits(timeout=60, build=0.3))
    os.kill(process._nursery._process.pid, signal.SIGSTOP)
    with pytest.raises(EngineBuildTimeout, match=r"not built within 0.3 s"):
        ProcessCore(substrate(HARVEST), None, False)
    monkeypatch.setattr(patience, "_limits", patience.Limits(timeout=60))
    core = ProcessCore(substrate(HARVEST), None, False)
    assert core.start(1)
    assert core._timeout == 50, "an engine gives up before the server gives up on its worker"


def test_a_nursery_that_was_killed_is_replaced():
    from potluck_envs.meltingpot import process

    first = ProcessCore(substrate(HARVEST), None, False)
    first.start(1)
    process._nursery._process.kill()
    process._nursery._process.wait()
    second = ProcessCore(substrate(HARVEST), None, False)
    assert second.start(3) == ProcessCore(substrate(HARVEST), None, False).start(3)
    assert first.advance(bytes(7)), "its children live on"


def test_an_episode_whose_engine_died_can_be_gone_on_with_exactly():
    engine, undisturbed = Engine(HARVEST), Engine(HARVEST)
    joint = [[random.Random(i).choice(engine.substrate.actions) for i in range(7 * t, 7 * t + 7)] for t in range(40)]
    assert engine.reset(1) == undisturbed.reset(1)
    for actions in joint[:20]:
        assert engine.step(actions) == undisturbed.step(actions)
    os.kill(engine._core.pid, signal.SIGKILL)
    with pytest.raises(EngineCrashed):
        engine.step(joint[20])
    for actions in joint[20:]:
        assert engine.step(actions) == undisturbed.step(actions)


def test_a_moment_that_is_gone_on_from_often_is_forked_and_not_played_again(monkeypatch):
    source = Engine(HARVEST)
    source.reset(4)
    joint = [[random.Random(i).choice(source.substrate.actions) for i in range(7 * t, 7 * t + 7)] for t in range(60)]
    for actions in joint[:40]:
        source.step(actions)
    moment = source.moment()
    following = [source.step(actions) for actions in joint[40:]]
    replays = []
    replay = ProcessCore.replay
    monkeypatch.setattr(ProcessCore, "replay", lambda core, *log: (replays.append(core), replay(core, *log))[1])
    for _ in range(5):
        again = Engine(HARVEST)
        again.go_to(moment)
        assert [again.step(actions) for actions in joint[40:]] == following
    assert len(replays) == 2
    futures = []
    for seed in (1, 1, 2):
        reseeded = Engine(HARVEST)
        reseeded.go_to(moment)
        reseeded.reseed(seed)
        futures.append([reseeded.step(actions) for actions in joint[40:]])
    assert futures[0] == futures[1] != futures[2]
    assert futures[0] != following
    assert all(core.pid not in {c.pid for c in replays[:2]} for core in replays[2:]), "forks, reseeded: no more"
