"""The env servers that episodes are played on (signatures only for now)."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from potluck.env.v1.env_service_pb2 import GameInfo, Recording, ReplayResponse
from potluck.rpc.security import Security


class EnvPool:
    """Channels to one or more env servers that offer the same libraries."""

    def __init__(self, addresses: Sequence[str], security: Security | None = None) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Closes the channels."""
        raise NotImplementedError

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Waits until every server serves."""
        raise NotImplementedError

    async def games(self) -> dict[str, GameInfo]:
        """The games that every server offers; different libraries of one game are refused."""
        raise NotImplementedError

    async def replay(self, recording: Recording, frames: bool = False, timeout_s: float = 120.0) -> ReplayResponse:
        """Re-executes a recording; a digest that differs is an error."""
        raise NotImplementedError
