"""The embedded backbone knows nothing of the shipped games: frozen, it plays no better than the uniform policy.

Two statements, since "no significant difference" alone could come from too few episodes: at every decision that was
played, the frozen policy is close to even over the menu; and a gain over uniform of even a tenth of what the scripted
partner gains is excluded.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from potluck.play import EnvPool, EpisodeResult, EpisodeSpec, PlayOptions, PolicyClient, builtin, play
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


async def played(clients: Clients, kind: pb.BuiltinPolicy) -> list[EpisodeResult]:
    """Episodes on the seeds, in order."""
    policies = {agent: builtin(kind) for agent in AGENTS}
    specs = [EpisodeSpec(f"{kind}-{seed}", GAME, seed, policies=policies, sample_seed=seed) for seed in SEEDS]
    return await play(specs, *clients, PlayOptions(temperature=1.0))


def soups(results: list[EpisodeResult]) -> np.ndarray:
    return np.array([result.finished.team_return for result in results])


def gain_interval(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval of the paired difference's mean."""
    rng = np.random.default_rng(0)
    gain = one - other
    low, high = np.quantile(rng.choice(gain, (10_000, len(gain))).mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def evenness(results: list[EpisodeResult]) -> np.ndarray:
    """Entropy / log n of each decision with a choice."""
    menus = [np.array(record.probabilities) for result in results for record in result.decisions]
    return np.array([-(p[p > 0] * np.log(p[p > 0])).sum() / np.log(len(p)) for p in menus if len(p) > 1])


async def test_frozen_tiny_is_not_better_than_uniform_and_the_test_sees_a_better_player(clients: Clients) -> None:
    uniform, frozen, scripted = [
        await played(clients, kind)
        for kind in (pb.BUILTIN_POLICY_UNIFORM, pb.BUILTIN_POLICY_FROZEN, pb.BUILTIN_POLICY_SCRIPTED)
    ]
    assert soups(uniform).mean() > 0
    assert evenness(frozen).mean() >= 0.99
    assert evenness(frozen).min() >= 0.85, np.sort(evenness(frozen))[:10]
    assert evenness(scripted).mean() < 0.85
    known = gain_interval(soups(scripted), soups(uniform))
    assert known[0] > 0
    low, high = gain_interval(soups(frozen), soups(uniform))
    assert low <= 0, "frozen plays better than uniform"
    assert high < 0.1 * known[1], (low, high, known)
