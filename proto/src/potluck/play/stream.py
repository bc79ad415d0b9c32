"""One Play stream of one env server: a wave of commands out, all their updates in.

A stream that breaks or does not answer in time is lost with the episodes on it; what it had answered by then is kept,
so that an episode that finished in its last wave is not played again.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import grpc

from potluck.env.v1.env_service_pb2 import Command, PlayRequest, Update
from potluck.play.errors import stalled
from potluck.rpc.errors import PotluckError, Reason, from_rpc
from potluck.rpc.limits import MESSAGE_CAP

_REQUEST_BYTES = MESSAGE_CAP // 4


class Answers(NamedTuple):
    """Updates by episode id, and why the stream is lost if it is."""

    updates: dict[str, Update]
    lost: PotluckError | None


class EnvStream:
    """A bidirectional stream."""

    def __init__(self, address: str, call: Any) -> None:
        self.address = address
        self._call = call

    def cancel(self) -> None:
        """Ends the stream; the server drops its episodes."""
        self._call.cancel()

    async def exchange(self, commands: Sequence[Command], timeout_s: float) -> Answers:
        """Sends at most one command per episode and waits for the answer to each."""
        waiting = {command.episode_id: command.request_id for command in commands}
        updates: dict[str, Update] = {}
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(commands)
                await self._receive(waiting, updates)
        except TimeoutError:
            return self._lost(updates, stalled(self.address, len(waiting), timeout_s))
        except grpc.RpcError as error:
            return self._lost(updates, from_rpc(error, f"env server {self.address}"))
        except asyncio.InvalidStateError:
            # grpc.aio's answer to a write on a stream that has ended.
            return self._lost(updates, await self._ended())
        except PotluckError as error:
            return self._lost(updates, error)
        return Answers(updates, None)

    async def _send(self, commands: Sequence[Command]) -> None:
        request = PlayRequest(commands=commands)
        if request.ByteSize() <= _REQUEST_BYTES or len(commands) == 1:
            await self._call.write(request)
            return
        middle = len(commands) // 2
        await self._send(commands[:middle])
        await self._send(commands[middle:])

    async def _receive(self, waiting: dict[str, str], updates: dict[str, Update]) -> None:
        while waiting:
            response = await self._call.read()
            if response is grpc.aio.EOF:
                raise await self._ended()
            for update in response.updates:
                if waiting.get(update.episode_id) == update.request_id:
                    del waiting[update.episode_id]
                    updates[update.episode_id] = update

    async def _ended(self) -> PotluckError:
        code = await self._call.code() if self._call.done() else grpc.StatusCode.UNKNOWN
        message = f"env server {self.address} ended the stream with {code.name}"
        return PotluckError(Reason.UNREACHABLE, message, "look into its log")

    def _lost(self, updates: dict[str, Update], error: PotluckError) -> Answers:
        self._call.cancel()
        return Answers(updates, error)
