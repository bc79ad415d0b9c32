"""Real env and policy servers as child processes, and failures made on them."""

import asyncio
import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.play import EnvPool, EpisodeSpec, PolicyClient, builtin, play
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck_audit.blame import Case
from potluck_audit.blame.faults import FaultSettings, Tally, inject
from potluck_audit.blame.trace import walk

GAME, HORIZON, SOUPS = "overcooked/cramped_room", 76, 2
SCRIPTED = {"agent_0": "scripted", "agent_1": "scripted"}


def started(program, *args):
    found = Path(sys.executable).parent / program
    argv = [
        str(found if found.exists() else shutil.which(program) or pytest.skip(f"{program} is not installed")),
        *args,
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if ready := re.match(r"ready \S+ on (\S+)", line):
            return process, ready[1]
    raise RuntimeError(f"{program} ended before it was ready")


@contextlib.contextmanager
def both_servers(backbone, workers):
    """(env server, policy server) addresses."""
    env, env_address = started("potluck-envs", "serve", "--workers", workers)
    policy, policy_address = started("potluck-policy", "serve", "--backbone", backbone)
    yield env_address, policy_address
    for process in (env, policy):
        process.terminate()
    for process in (env, policy):
        process.wait(30)


@pytest.fixture(scope="session")
def servers():
    with both_servers("uniform", "1") as addresses:
        yield addresses


@pytest.fixture(scope="session")
def at_table(servers):
    """Runs an async function of (envs, policy) over fresh channels."""

    def run(function):
        async def go():
            async with EnvPool([servers[0]]) as envs, PolicyClient(servers[1]) as policy:
                return await function(envs, policy)

        return asyncio.run(go())

    return run


@pytest.fixture(scope="session")
def success(at_table):
    """A successful scripted episode: its case and trace."""

    async def make(envs, policy):
        scripted = builtin(policy_pb.BUILTIN_POLICY_SCRIPTED)
        spec = EpisodeSpec("ok", GAME, 0, HORIZON, policies=dict.fromkeys(SCRIPTED, scripted), sample_seed=0)
        [result] = await play([spec], envs, policy)
        case = Case("ok", result.finished.recording, result.finished.team_return, SCRIPTED, 0, unit="soups")
        return case, await walk(case, envs)

    return at_table(make)


@pytest.fixture(scope="session")
def faults(at_table, success):
    """Two failures with their causes."""

    async def make(envs, policy):
        case, trace = success
        settings = FaultSettings(SOUPS, plays=8, per_episode=2)
        return await inject(case, trace, envs, policy, settings, Tally())

    return at_table(make)
