"""The env server as a whole: a pool of workers behind the EnvService."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from potluck.rpc.security import Security
from potluck.rpc.server import RunningServer, serve
from potluck_envs.pool import TIMEOUT_SECONDS, Pool
from potluck_envs.service import SERVICE, EnvService


@contextlib.asynccontextmanager
async def env_server(
    bind: str = "127.0.0.1:0",
    workers: int = 0,
    timeout: float = TIMEOUT_SECONDS,
    security: Security | None = None,
) -> AsyncIterator[RunningServer]:
    """A running env server; its workers end with the block."""
    pool = Pool(workers, timeout)
    service = EnvService(pool)
    # The port before the workers: one in use costs nothing and is said at once.
    server = await serve(service.add_to, services=[SERVICE], bind=bind, security=security, on_drain=service.drain)
    try:
        await pool.start()
        yield server
    finally:
        await server.stop()
        await pool.stop()
