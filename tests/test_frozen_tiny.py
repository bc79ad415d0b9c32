"""The embedded backbone knows nothing of the shipped games: frozen, it plays no better than the uniform policy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from potluck.play import EnvPool, EpisodeSpec, PlayOptions, PolicyClient, builtin, play
from potluck.policy.v1 import policy_service_pb2 as pb

BIN = Path(sys.executable).parent
GAME, AGENTS, SEEDS = "overcooked/forced_coordination", ("agent_0", "agent_1"), range(30_000, 30_016)
Clients = tuple[EnvPool, PolicyClient]


def start(stack: AsyncExitStack, *command: str) -> str:
    """Starts a service and returns its address once it is ready."""
    server = subprocess.Popen([BIN / command[0], *command[1:]], stdout=subprocess.PIPE, text=True)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    assert server.stdout is not None
    ready = server.stdout.readline()
    assert ready.startswith(f"ready {command[0]} on ")
    return ready.split()[-1]


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack:
        envs = EnvPool([start(stack, "potluck-envs", "serve", "--bind", "127.0.0.1:0")])
        policy = PolicyClient(start(stack, "potluck-policy", "serve", "--backbone", "tiny", "--bind", "127.0.0.1:0"))
        stack.push_async_callback(policy.close)
        stack.push_async_callback(envs.close)
        yield envs, policy


async def soups(clients: Clients, kind: pb.BuiltinPolicy) -> np.ndarray:
    """Returns on the seeds, in order."""
    policies = {agent: builtin(kind) for agent in AGENTS}
    specs = [EpisodeSpec(f"{kind}-{seed}", GAME, seed, policies=policies, sample_seed=seed) for seed in SEEDS]
    results = await play(specs, *clients, PlayOptions(temperature=1.0))
    return np.array([result.finished.team_return for result in results])


def clearly_better(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the paired difference's 95 % bootstrap interval lies above 0."""
    rng = np.random.default_rng(0)
    gain = one - other
    means = rng.choice(gain, (10_000, len(gain))).mean(axis=1)
    return bool(np.quantile(means, 0.025) > 0)


async def test_frozen_tiny_is_not_better_than_uniform_and_the_test_sees_a_better_player(clients: Clients) -> None:
    uniform = await soups(clients, pb.BUILTIN_POLICY_UNIFORM)
    frozen = await soups(clients, pb.BUILTIN_POLICY_FROZEN)
    scripted = await soups(clients, pb.BUILTIN_POLICY_SCRIPTED)
    assert uniform.mean() > 0
    assert not clearly_better(frozen, uniform)
    assert clearly_better(scripted, uniform)
