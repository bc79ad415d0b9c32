"""The env servers that episodes are played on.

API: `EnvPool(addresses, security=None)` with `.servers`, `wait_ready`, `games`, `replay(recording, frames)`;
`EnvServer(.address .stub, open_stream, ready(timeout_s))`.
"""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from potluck.env.v1.env_service_pb2 import GameInfo, ListGamesRequest, Recording, ReplayRequest, ReplayResponse
from potluck.env.v1.env_service_pb2_grpc import EnvServiceStub
from potluck.play.errors import DigestMismatch
from potluck.play.stream import EnvStream
from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.limits import STREAM_DEADLINE_S
from potluck.rpc.outgoing import stream_metadata
from potluck.rpc.security import Security

if TYPE_CHECKING:
    # The asynchronous view of the stub exists for type checkers alone.
    from potluck.env.v1.env_service_pb2_grpc import EnvServiceAsyncStub


class EnvServer:
    """A channel to one env server."""

    stub: "EnvServiceAsyncStub"

    def __init__(self, address: str, security: Security) -> None:
        self.address = address
        self._security = security
        self._channel = connect(address, security)
        self.stub = EnvServiceStub(self._channel)

    def open_stream(self) -> EnvStream:
        """A new Play stream; its episodes end with it."""
        call = self.stub.Play(metadata=stream_metadata(self._security), timeout=STREAM_DEADLINE_S)
        return EnvStream(self.address, call)

    async def wait_ready(self, timeout_s: float) -> None:
        """Waits until the server serves."""
        await wait_ready(self._channel, self.address, timeout_s)

    async def games(self) -> dict[str, GameInfo]:
        """What it offers."""
        with typed_errors(f"env server {self.address}"):
            reply = await self.stub.ListGames(ListGamesRequest())
        return {game.name: game for game in reply.games}

    async def replay(self, recording: Recording, frames: bool, timeout_s: float) -> ReplayResponse:
        """Re-executes a recording."""
        request = ReplayRequest(recording=recording, frames=frames)
        with typed_errors(f"env server {self.address}"):
            return await self.stub.Replay(request, timeout=timeout_s)

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()


class EnvPool:
    """Env servers that offer the same libraries. Episodes are spread over them when they begin."""

    def __init__(self, addresses: Sequence[str], security: Security | None = None) -> None:
        if not addresses:
            cure = "name at least one, as host:port"
            raise PotluckError(Reason.INVALID_ARGUMENT, "there is no env server to play on", cure, field="envs")
        security = Security.from_env() if security is None else security
        self.servers = [EnvServer(address, security) for address in dict.fromkeys(addresses)]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the channels."""
        await asyncio.gather(*(server.close() for server in self.servers))

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Waits until every server serves."""
        await asyncio.gather(*(server.wait_ready(timeout_s) for server in self.servers))

    async def games(self) -> dict[str, GameInfo]:
        """The games that every server offers; a game that differs between servers is refused."""
        offers = await asyncio.gather(*(server.games() for server in self.servers))
        games = {name: game for name, game in offers[0].items() if all(name in offer for offer in offers)}
        for server, offer in zip(self.servers, offers, strict=True):
            for name, game in games.items():
                if offer[name] != game:
                    what = f"the library of {name} at {server.address}"
                    cure = f"start it with the same package versions and guards as {self.servers[0].address}"
                    raise DigestMismatch(what, game.library_digest, offer[name].library_digest, cure)
        return games

    async def replay(self, recording: Recording, frames: bool = False, timeout_s: float = 120.0) -> ReplayResponse:
        """Re-executes a recording on the first server that is there; a digest that differs is an error."""
        for server in self.servers[:-1]:
            try:
                return _same(recording, await server.replay(recording, frames, timeout_s))
            except PotluckError as error:
                if error.reason not in (Reason.UNREACHABLE, Reason.DRAINING):
                    raise
        return _same(recording, await self.servers[-1].replay(recording, frames, timeout_s))


def _same(recording: Recording, reply: ReplayResponse) -> ReplayResponse:
    if reply.digest != recording.digest:
        got, want = reply.digest[:16], recording.digest[:16]
        message = f"{recording.game} seed {recording.seed} re-executes to {got}…, not {want}…"
        cure = "use the engine and library versions that it was recorded with"
        raise PotluckError(Reason.REPLAY_DIVERGED, message, cure, want=recording.digest, got=reply.digest)
    return reply
