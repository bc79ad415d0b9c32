"""One ChooseStream of a policy server: many batches at once over one call, each answered when it is ready.

    async with await client.stream() as stream:
        replies = await asyncio.gather(*(stream.choose(request) for request in requests))

At most the server's `max_in_flight` batches are under way; further calls of `choose` wait here. A `choose` that is
cancelled or runs out of time takes its batch back. When the stream breaks, every batch without an answer fails with the
reason. API: `ChoiceStream(call, peer, most)` with `choose(request, timeout_s)`, `close()`.
"""

import asyncio
import itertools
from types import TracebackType
from typing import Any, Self

import grpc

from potluck.policy.v1.policy_service_pb2 import (
    ChooseRequest,
    ChooseResponse,
    ChooseStreamRequest,
    ChooseStreamResponse,
)
from potluck.rpc.errors import PotluckError, Reason, from_rpc, from_status
from potluck.telemetry.context import trace_message

_CLOSING_S = 5.0


class ChoiceStream:
    """The client's side of one stream."""

    def __init__(self, call: Any, peer: str, most: int) -> None:
        self._call = call
        self._peer = peer
        self._free = asyncio.Semaphore(most)
        self._names = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[ChooseResponse]] = {}
        self._outgoing: asyncio.Queue[ChooseStreamRequest | None] = asyncio.Queue()
        self._lost: PotluckError | None = None
        # Both have a task of their own: a write or a read that is cancelled half-way would end the call.
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def choose(self, request: ChooseRequest, timeout_s: float = 300.0) -> ChooseResponse:
        """The answers to one batch; its request_id is given by the stream. Raises PotluckError."""
        name = f"batch-{next(self._names)}"
        try:
            async with asyncio.timeout(timeout_s), self._free:
                return await self._exchange(name, request, timeout_s)
        except TimeoutError:
            message = f"{self._peer} did not answer {name} within {timeout_s:g} s"
            raise PotluckError(Reason.DEADLINE, message, "allow more time, or send fewer decisions at once") from None

    async def close(self) -> None:
        """Ends the stream in good order, or breaks it off where that takes too long."""
        self._outgoing.put_nowait(None)
        done, _ = await asyncio.wait(self._tasks, timeout=_CLOSING_S)
        if len(done) < len(self._tasks):
            self._call.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _exchange(self, name: str, request: ChooseRequest, timeout_s: float) -> ChooseResponse:
        if self._lost is not None:
            raise self._lost
        batch = ChooseRequest()
        batch.CopyFrom(request)
        batch.request_id = name
        message = ChooseStreamRequest(choose=batch, timeout_ms=max(1, round(timeout_s * 1000)), trace=trace_message())
        answer: asyncio.Future[ChooseResponse] = asyncio.get_running_loop().create_future()
        self._waiting[name] = answer
        self._outgoing.put_nowait(message)
        try:
            return await answer
        except asyncio.CancelledError:
            if self._lost is None:
                self._outgoing.put_nowait(ChooseStreamRequest(cancel=name))
            raise
        finally:
            self._waiting.pop(name, None)

    async def _write(self) -> None:
        try:
            while (message := await self._outgoing.get()) is not None:
                await self._call.write(message)
            await self._call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the reader finds out why

    async def _read(self) -> None:
        error = PotluckError(Reason.UNREACHABLE, f"{self._peer} has ended the stream", "open another one")
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self._take(response)
            if (code := await self._call.code()) is not grpc.StatusCode.OK:
                raise grpc.aio.AioRpcError(
                    code,
                    await self._call.initial_metadata(),
                    await self._call.trailing_metadata(),
                    await self._call.details(),
                )
        except grpc.RpcError as broken:
            error = from_rpc(broken, self._peer)
        except asyncio.CancelledError:
            pass  # the call was cancelled from this side
        finally:
            self._lose(error)

    def _take(self, response: ChooseStreamResponse) -> None:
        answer = self._waiting.get(response.request_id)
        if answer is None or answer.done():
            return
        if response.WhichOneof("outcome") == "choose":
            answer.set_result(response.choose)
        else:
            answer.set_exception(from_status(response.failed))

    def _lose(self, error: PotluckError) -> None:
        self._lost = error
        self._outgoing.put_nowait(None)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
