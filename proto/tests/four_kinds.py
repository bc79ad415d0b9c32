"""A service with a method of each of the four kinds, each of which can fail in each way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc

from potluck.rpc.channel import connect
from potluck.rpc.errors import PotluckError, Reason
from potluck.rpc.outgoing import stream_metadata
from potluck.rpc.security import Security
from potluck.rpc.server import RunningServer, serve

SERVICE = "test.Kinds"
KINDS = ("UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream")
SECRET = "secret path and password"


class Kinds:
    """Bytes in, bytes out. The request says how to fail."""

    def __init__(self) -> None:
        self.seen: list[float | None] = []
        self.metadata: list[dict[str, str]] = []
        self.attempts = 0
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = 0

    async def _do(self, request: bytes, context) -> bytes:
        self.seen.append(context.time_remaining())
        self.metadata.append(dict(context.invocation_metadata()))
        self.attempts += 1
        match request:
            case b"crash":
                raise RuntimeError(SECRET)
            case b"refuse":
                raise PotluckError(Reason.UNKNOWN_GAME, "no game chess", "ask ListGames", known="a, b")
            case b"abort":
                await context.abort(grpc.StatusCode.NOT_FOUND, "plain abort")
            case b"flaky" if self.attempts < 3:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
            case b"large":
                return bytes(65 << 20)
            case b"wait":
                self.entered.set()
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
        return b"done " + request

    async def unary_unary(self, request, context):
        return await self._do(request, context)

    async def unary_stream(self, request, context):
        yield await self._do(request, context)

    async def stream_unary(self, requests, context):
        return await self._do(await anext(aiter(requests)), context)

    async def stream_stream(self, requests, context):
        async for request in requests:
            yield await self._do(request, context)

    def add(self, server: grpc.aio.Server) -> None:
        handlers = {
            "UnaryUnary": grpc.unary_unary_rpc_method_handler(self.unary_unary),
            "UnaryStream": grpc.unary_stream_rpc_method_handler(self.unary_stream),
            "StreamUnary": grpc.stream_unary_rpc_method_handler(self.stream_unary),
            "StreamStream": grpc.stream_stream_rpc_method_handler(self.stream_stream),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


async def serve_kinds(kinds: Kinds, **kwargs) -> RunningServer:
    kwargs.setdefault("security", Security())
    return await serve(kinds.add, services=[SERVICE], **kwargs)


@contextlib.asynccontextmanager
async def kinds_server(**kwargs) -> AsyncIterator[tuple[Kinds, RunningServer, grpc.aio.Channel]]:
    kinds = Kinds()
    server = await serve_kinds(kinds, **kwargs)
    try:
        async with connect(server.address, kwargs.get("security", Security())) as channel:
            yield kinds, server, channel
    finally:
        await server.stop()


async def call(
    channel: grpc.aio.Channel, kind: str, request: bytes, timeout: float | None = None, security: Security | None = None
) -> bytes:
    path = f"/{SERVICE}/{kind}"
    match kind:
        case "UnaryUnary":
            return await channel.unary_unary(path)(request, timeout=timeout)
        case "StreamUnary":
            return await channel.stream_unary(path)(iter([request]), timeout=timeout)
        case "UnaryStream":
            return b"".join([answer async for answer in channel.unary_stream(path)(request, timeout=timeout)])
        case _:
            metadata = stream_metadata(security or Security())
            stream = channel.stream_stream(path)(iter([request]), timeout=timeout, metadata=metadata)
            return b"".join([answer async for answer in stream])
