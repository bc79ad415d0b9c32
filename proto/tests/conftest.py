"""A table to play at: any env servers and one policy server, real ones on loopback."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from potluck.play import EnvPool, EpisodeResult, EpisodeSpec, OnWave, PlayOptions, PolicyClient, adapter, play
from potluck.rpc.server import RunningServer

from .counting import GAME, PLAIN, CountingEnv, CountingPolicy, serve_env, serve_policy, sha

ADAPTERS = {"a": sha("adapter a"), "b": sha("adapter b")}


def specs(count: int, **kwargs) -> list[EpisodeSpec]:
    policies = {agent: adapter(digest) for agent, digest in ADAPTERS.items()}
    base = {"game": GAME, "policies": policies} | kwargs
    return [EpisodeSpec(f"e{n}", seed=n % 3, sample_seed=n, **base) for n in range(count)]


@dataclass
class Table:
    envs: EnvPool
    policy: PolicyClient
    servers: list[RunningServer]

    async def play(
        self, what: list[EpisodeSpec], options: PlayOptions | None = None, on_wave: OnWave | None = None
    ) -> list[EpisodeResult]:
        options = options or PlayOptions(wave_timeout_s=5, choose_timeout_s=5, reconnect_timeout_s=3)
        return await play(what, self.envs, self.policy, options, on_wave)


@contextlib.asynccontextmanager
async def table(*envs: CountingEnv, policy: CountingPolicy | None = None) -> AsyncIterator[Table]:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await serve_env(env) for env in envs or (CountingEnv(),)]
        servers.append(await serve_policy(policy or CountingPolicy()))
        for server in servers:
            stack.push_async_callback(server.stop)
        pool = await stack.enter_async_context(EnvPool([server.address for server in servers[:-1]], PLAIN))
        client = await stack.enter_async_context(PolicyClient(servers[-1].address, PLAIN))
        yield Table(pool, client, servers)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POTLUCK_TOKEN", "POTLUCK_TLS_CERT", "POTLUCK_TLS_KEY", "POTLUCK_TLS_CA"):
        monkeypatch.delenv(name, raising=False)
