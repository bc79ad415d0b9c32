"""One ChooseStream: batches come in, each answer goes out as soon as it is ready.

At most `most` batches are in flight, counted until the answer has been handed to the transport. While that many are,
nothing is read, so HTTP/2's flow control holds back a client that sends too fast, and one that does not fetch its
answers. A batch that fails answers with its own status and harms no other. What ends the stream (the client leaves, the
server drains, a message breaks the contract) is told after the answers of what was in flight, where anybody is left to
hear them; the places of all others are freed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.edge import as_typed
from potluck.rpc.errors import draining
from potluck.rpc.logs import REQUEST_ID
from potluck_policy_server.errors import BatchCancelled, InvalidRequest

log = logging.getLogger(__name__)

Work = Callable[[pb.ChooseStreamRequest], Awaitable[pb.ChooseResponse]]


class ChoiceStream:
    """The server's side of one stream."""

    def __init__(self, work: Work, most: int) -> None:
        self._work = work
        self._free = asyncio.Semaphore(most)
        self._running: dict[str, asyncio.Task[pb.ChooseResponse]] = {}
        self._ready: asyncio.Queue[pb.ChooseStreamResponse | None] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        self._draining = False

    async def answers(
        self, requests: AsyncIterator[pb.ChooseStreamRequest]
    ) -> AsyncGenerator[pb.ChooseStreamResponse, None]:
        """Everything that goes out. Raises what has ended the stream, if it was not the client's orderly end."""
        if self._draining:
            raise draining()
        self._reading = asyncio.create_task(self._read(requests))
        try:
            while (response := await self._ready.get()) is not None:
                yield response
                self._free.release()
            if self._draining:
                raise draining()
            await self._reading
        finally:
            await self._close()

    def drain(self) -> None:
        """Reads no more; the stream ends with the last answer."""
        self._draining = True
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, requests: AsyncIterator[pb.ChooseStreamRequest]) -> None:
        try:
            async for request in requests:
                match request.WhichOneof("action"):
                    case "choose":
                        await self._begin(request)
                    case "cancel" if request.cancel in self._running:
                        self._running[request.cancel].cancel()
                    case "cancel":
                        pass  # its answer is on the way
                    case _:
                        raise InvalidRequest("action", "a message holds neither a batch nor the id of one to cancel")
        finally:
            while self._running:
                await asyncio.wait(self._running.values())
                await asyncio.sleep(0)  # for their callbacks
            self._ready.put_nowait(None)

    async def _begin(self, request: pb.ChooseStreamRequest) -> None:
        name = request.choose.request_id
        if not name:
            raise InvalidRequest("choose.request_id", "is empty", "name each batch of a stream")
        if name in self._running:
            raise InvalidRequest("choose.request_id", f"{name!r} is not answered yet", "name each batch otherwise")
        await self._free.acquire()
        task = asyncio.create_task(self._run(request))
        self._running[name] = task
        task.add_done_callback(lambda done: self._done(name, done))

    async def _run(self, request: pb.ChooseStreamRequest) -> pb.ChooseResponse:
        REQUEST_ID.set(request.choose.request_id)
        return await self._work(request)

    def _done(self, name: str, task: asyncio.Task[pb.ChooseResponse]) -> None:
        self._running.pop(name, None)
        response = pb.ChooseStreamResponse(request_id=name)
        if task.cancelled():
            response.failed.CopyFrom(BatchCancelled(name).status())
        elif (error := task.exception()) is not None:
            typed = as_typed(error, f"batch {name!r}")
            log.info("batch %r refused: %s: %s", name, typed.reason, typed.message)
            response.failed.CopyFrom(typed.status())
        else:
            response.choose.CopyFrom(task.result())
        self._ready.put_nowait(response)

    async def _close(self) -> None:
        tasks: list[asyncio.Task[pb.ChooseResponse] | asyncio.Task[None]] = list(self._running.values())
        if self._reading is not None:
            tasks.append(self._reading)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
