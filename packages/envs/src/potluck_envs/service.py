"""The EnvService over gRPC.

Workers answer in serialized updates, and a response is their concatenation: this process neither parses nor copies
what a game says. Hence handlers of its own instead of the generated registration, which would serialize again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import grpc

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.pool import Pool
from potluck_envs.sessions import Session

SERVICE = "potluck.env.v1.EnvService"


class EnvService:
    """Plays games in the workers of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sessions: set[Session] = set()
        self._draining = False

    async def list_games(self, request: pb.ListGamesRequest, context: Any) -> bytes:
        """The games offered here."""
        return await self._pool.games()

    async def replay(self, request: pb.ReplayRequest, context: Any) -> bytes:
        """Re-executes a recording."""
        return await self._pool.replay(request)

    async def play(self, requests: AsyncIterator[pb.PlayRequest], context: Any) -> AsyncIterator[bytes]:
        """Plays episodes until the client has closed its side and every command is answered."""
        session = Session(self._pool)
        self._sessions.add(session)
        if self._draining:
            session.drain()
        reading = asyncio.create_task(_read(requests, session))
        try:
            while (response := await session.output()) is not None:
                yield response
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError):
                await reading
            self._sessions.discard(session)
            session.close()

    def drain(self) -> None:
        """Refuses new episodes and lets running ones end."""
        self._draining = True
        for session in self._sessions:
            session.drain()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the service."""
        unary = functools.partial(grpc.unary_unary_rpc_method_handler, response_serializer=bytes)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "ListGames": unary(self.list_games, request_deserializer=pb.ListGamesRequest.FromString),
            "Replay": unary(self.replay, request_deserializer=pb.ReplayRequest.FromString),
            "Play": grpc.stream_stream_rpc_method_handler(
                self.play, request_deserializer=pb.PlayRequest.FromString, response_serializer=bytes
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


async def _read(requests: AsyncIterator[pb.PlayRequest], session: Session) -> None:
    try:
        async for request in requests:
            session.submit(request)
    finally:
        session.end_input()
