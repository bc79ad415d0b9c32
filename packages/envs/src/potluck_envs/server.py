"""The env server as a whole: a pool of workers behind the EnvService."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from potluck.rpc.security import Security
from potluck.rpc.server import RunningServer, serve
from potluck_envs.patience import BUILD_SECONDS, TIMEOUT_SECONDS, Limits
from potluck_envs.pool import Pool
from potluck_envs.service import SERVICE, EnvService


@contextlib.asynccontextmanager
async def env_server(
    bind: str = "127.0.0.1:0",
    workers: int = 0,
    timeout: float = TIMEOUT_SECONDS,
    security: Security | None = None,
    build_timeout: float = BUILD_SECONDS,
) -> AsyncIterator[RunningServer]:
    """A running env server; its workers end with the block.

    timeout: seconds that a command may take. build_timeout: the same for the build of an engine.
    """
    pool = Pool(workers, Limits(timeout, build_timeout))
    service = EnvService(pool)
    # The port before the workers: one in use costs nothing and is said at once.
    server = await serve(service.add_to, services=[SERVICE], bind=bind, security=security, on_drain=service.drain)
    try:
        await pool.start()
        yield server
    finally:
        await server.stop()
        await pool.stop()
