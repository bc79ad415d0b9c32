"""Checks of ChooseStream, for servers that offer it: one answer per batch, as a call gives it, harming no other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason, from_rpc, from_status, typed_errors
from potluck.rpc.outgoing import stream_metadata
from potluck.rpc.security import Security
from potluck_policy_server.conformance.peer import FROZEN, Broken, Peer, Skipped, adapter, decision

_NOBODY = "e" * 64
_UNIFORM = pb.Policy(builtin=pb.BUILTIN_POLICY_UNIFORM)
_SEVERAL = 2
"""Times as many batches as the server says it reads at once."""
_MOST = 200


async def streams_answer_as_calls(peer: Peer) -> str:
    """More batches than are read at once: each is answered once, as Choose answers it, and the stream ends well."""
    await _offered(peer)
    few = peer.plan.decisions
    count = max(few, min(_SEVERAL * peer.described.max_in_flight, _MOST))
    batches = {f"batch {n}": [decision(n, 2 + n % 7, FROZEN if n < few else _UNIFORM)] for n in range(count)}
    batches["batch 0"] = [decision(n, 5) for n in range(min(3, peer.largest))]
    found = await _exchange(peer, [_choose(name, asked) for name, asked in batches.items()])
    for name, asked in batches.items():
        if (response := found.pop(name, None)) is None:
            raise Broken(f"{name!r} of a stream got no answer")
        if response.WhichOneof("outcome") != "choose":
            raise Broken(f"{name!r} of a stream failed: {from_status(response.failed)}")
        _same(peer, name, response.choose, await peer.ask(asked))
    if found:
        raise Broken(f"a stream answered batches that nobody sent: {', '.join(sorted(found))}")
    return f"{count} batches, at most {peer.described.max_in_flight} at once"


async def streams_refuse_alone(peer: Peer) -> str:
    """A batch that must be refused fails by its reason, and those before and after it are answered."""
    await _offered(peer)
    cold, nobody = decision(1, temperature=0.0), decision(2, policy=adapter(_NOBODY))
    messages = [_choose("first", [decision(0)]), _choose("cold", [cold]), _choose("nobody", [nobody])]
    found = await _exchange(peer, [*messages, _choose("last", [decision(3)])])
    for name, reason in (("cold", Reason.INVALID_ARGUMENT), ("nobody", Reason.UNKNOWN_ADAPTER)):
        response = found.get(name)
        told = from_status(response.failed).reason if response and response.HasField("failed") else "an answer"
        if told != reason:
            raise Broken(f"{name!r} of a stream must be refused with {reason}; the server gave {told}")
    for name in ("first", "last"):
        if name not in found or not found[name].HasField("choose"):
            raise Broken(f"{name!r} of a stream was lost with another that was refused")
    return "2 refusals between 2 answers"


async def streams_take_back(peer: Peer) -> str:
    """A batch that is taken back has one answer all the same; a stream that is broken off leaves a sound server."""
    await _offered(peer)
    many = [decision(seed, 12) for seed in range(min(peer.plan.decisions, peer.largest))]
    messages = [_choose(f"batch {n}", many) for n in range(min(4, peer.described.max_in_flight))]
    last = messages[-1].choose.request_id
    found = await _exchange(peer, [*messages, pb.ChooseStreamRequest(cancel=last)])
    for message in messages:
        name = message.choose.request_id
        if name not in found:
            raise Broken(f"{name!r} got no answer after {last!r} was taken back")
        if found[name].HasField("failed") and (reason := from_status(found[name].failed).reason) != Reason.CANCELLED:
            raise Broken(f"{name!r} failed with {reason} after {last!r} was taken back")
        if found[name].HasField("failed") and name != last:
            raise Broken(f"{name!r} was cancelled in place of {last!r}")
    before = await peer.ask([decision(0)])
    async with _call(peer) as call:
        for message in messages:
            await call.write(message)
    try:
        after = await asyncio.wait_for(peer.ask([decision(0)]), peer.plan.patience_s)
    except TimeoutError:
        raise Broken("after a stream was broken off, the server answered no more") from None
    _same(peer, "a call after a stream that was broken off", after, before)
    return f"{last!r}: {found[last].WhichOneof('outcome')}"


async def _offered(peer: Peer) -> None:
    """Raises Skipped where the server offers no streams, and Broken where it says so and does otherwise.

    Nothing is written: grpc.aio loses the status of a call that ends during a write (grpc/grpc#36066).
    """
    if peer.described.max_in_flight:
        return
    try:
        await _exchange(peer, [])
    except PotluckError as error:
        if error.reason != Reason.UNSUPPORTED:
            raise Broken(f"max_in_flight is 0, and ChooseStream fails with {error.reason}, not UNSUPPORTED") from None
        raise Skipped("not offered: max_in_flight is 0 and ChooseStream is not implemented") from None
    raise Broken("max_in_flight is 0, and ChooseStream answers")


def _choose(name: str, asked: Sequence[pb.Decision]) -> pb.ChooseStreamRequest:
    return pb.ChooseStreamRequest(choose=pb.ChooseRequest(request_id=name, decisions=asked))


def _same(peer: Peer, name: str, one: pb.ChooseResponse, two: pb.ChooseResponse) -> None:
    if (one.base_digest, one.tokenizer_digest) != (two.base_digest, two.tokenizer_digest):
        raise Broken(f"{name!r} names another base or tokenizer than a call")
    if len(one.choices) != len(two.choices):
        raise Broken(f"{name!r} has {len(one.choices)} answers, a call {len(two.choices)}")
    for a, b in zip(one.choices, two.choices, strict=True):
        if a.prompt_digest != b.prompt_digest or len(a.probabilities) != len(b.probabilities):
            raise Broken(f"{name!r} is answered about other prompts than were asked")
        if np.abs(np.array(a.probabilities) - np.array(b.probabilities)).max() > peer.tolerance:
            raise Broken(f"{name!r} is answered otherwise than a call")


async def _exchange(peer: Peer, messages: Sequence[pb.ChooseStreamRequest]) -> dict[str, pb.ChooseStreamResponse]:
    """Everything that comes back, by request_id; Broken where one came twice or nothing more came."""
    found: dict[str, pb.ChooseStreamResponse] = {}
    async with _call(peer) as call:
        sending = asyncio.create_task(_send(call, messages))
        try:
            with typed_errors():
                while (response := await asyncio.wait_for(call.read(), peer.plan.patience_s)) is not grpc.aio.EOF:
                    if response.request_id in found:
                        raise Broken(f"{response.request_id!r} of a stream was answered twice")
                    found[response.request_id] = response
        except TimeoutError:
            raise Broken(f"a stream of {len(messages)} messages gave {len(found)} answers and no end") from None
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if (code := await call.code()) is not grpc.StatusCode.OK:
            details = (await call.initial_metadata(), await call.trailing_metadata(), await call.details())
            raise from_rpc(grpc.aio.AioRpcError(code, *details))
    return found


async def _send(call: Any, messages: Sequence[pb.ChooseStreamRequest]) -> None:
    with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):  # the reader is told why
        for message in messages:
            await call.write(message)
        await call.done_writing()


@contextlib.asynccontextmanager
async def _call(peer: Peer) -> AsyncIterator[Any]:
    metadata = stream_metadata(Security.from_env())
    call = peer.client.stub.ChooseStream(metadata=metadata, timeout=2 * peer.plan.patience_s)
    try:
        yield call
    finally:
        call.cancel()
