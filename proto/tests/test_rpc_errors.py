"""Errors: one mapping, typed on both ends, no exception text on the wire."""

import asyncio
import logging
import pickle
from collections import Counter

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from potluck.common.v1.common_pb2 import ErrorReason
from potluck.play import EpisodeLost
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1.policy_service_pb2_grpc import (
    PolicyServiceServicer,
    PolicyServiceStub,
    add_PolicyServiceServicer_to_server,
)
from potluck.rpc.channel import connect
from potluck.rpc.errors import CODES, PotluckError, Reason, from_rpc, from_status, typed_errors
from potluck.rpc.limits import MESSAGE_CAP
from potluck.rpc.security import Security
from potluck.rpc.server import serve

from .four_kinds import KINDS, SECRET, SERVICE, call, kinds_server


def test_reasons_and_codes_are_complete():
    wire = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()} - {"UNSPECIFIED"}  # noqa: SIM118
    assert set(Reason) == wire
    assert set(CODES) == wire


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_survives_the_wire(reason):
    error = from_status(PotluckError(reason, "it failed", "do this", field="x", size=3).status())
    assert (error.reason, str(error)) == (reason, "it failed: do this")
    assert error.metadata == {"field": "x", "size": "3"}
    assert error.code == CODES[reason]


def test_a_status_without_our_details_keeps_the_closest_reason():
    number, _ = grpc.StatusCode.UNAVAILABLE.value
    error = from_status(Status(code=number, message="connection refused"))
    assert error.reason == Reason.UNREACHABLE
    assert "connection refused" in error.message
    assert error.message.endswith(error.cure)


def test_a_reason_of_a_newer_server_is_kept():
    error = from_status(PotluckError("FROM_THE_FUTURE", "new").status())
    assert (error.reason, error.code) == ("FROM_THE_FUTURE", grpc.StatusCode.UNKNOWN)


def test_long_texts_are_cut_to_what_headers_carry():
    error = PotluckError(Reason.UNKNOWN_GAME, "x" * 9000, known="y" * 9000)
    assert len(error.status().SerializeToString()) < 4096


@pytest.mark.parametrize(
    "error", [PotluckError(Reason.INTERNAL, "a", "b", c=1), EpisodeLost("e", 3, PotluckError(Reason.DEADLINE, "late"))]
)
def test_errors_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.reason, str(again), again.metadata) == (
        type(error), error.reason, str(error), error.metadata,
    )  # fmt: skip


POLICY = "potluck.policy.v1.PolicyService"


class Leaves(PolicyServiceServicer):
    """Takes all methods over from the generated base, but one that fails in its own way."""

    async def Describe(self, request, context):
        raise NotImplementedError(SECRET)


async def test_methods_that_a_server_leaves_out_are_unsupported_and_no_accident():
    server = await serve(
        lambda s: add_PolicyServiceServicer_to_server(Leaves(), s), services=[POLICY], bind="127.0.0.1:0"
    )
    channel = connect(server.address)
    stub = PolicyServiceStub(channel)
    try:
        with pytest.raises(PotluckError, match="this server has no /potluck") as one, typed_errors():
            await stub.ReleaseAdapter(pb.ReleaseAdapterRequest())
        with pytest.raises(PotluckError, match="this server has no /potluck") as many, typed_errors():
            await stub.ChooseStream().read()
        with pytest.raises(PotluckError) as own, typed_errors():
            await stub.Describe(pb.DescribeRequest())
    finally:
        await channel.close()
        await server.stop()
    assert (one.value.reason, many.value.reason) == (Reason.UNSUPPORTED, Reason.UNSUPPORTED)
    assert own.value.reason == Reason.INTERNAL, "a method of its own that is not done is a defect"


@pytest.mark.parametrize("kind", KINDS)
async def test_uncaught_exceptions_leak_nothing_and_are_logged_with_their_id(kind, caplog):
    async with kinds_server() as (_, _, channel):
        with caplog.at_level(logging.ERROR, "potluck.rpc"), pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, kind, b"crash")
        assert await call(channel, kind, b"fine") == b"done fine", "the server lives on"
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert (
        SECRET not in f"{caught.value.details()}{caught.value.trailing_metadata()}{caught.value.debug_error_string()}"
    )
    error = from_rpc(caught.value)
    assert error.reason == Reason.INTERNAL
    assert error.metadata["error_id"] in caplog.text
    assert SECRET in caplog.text


@pytest.mark.parametrize("kind", KINDS)
async def test_typed_errors_arrive_typed(kind):
    async with kinds_server() as (_, _, channel):
        with pytest.raises(PotluckError, match="ask ListGames") as caught, typed_errors():
            await call(channel, kind, b"refuse")
        assert caught.value.reason == Reason.UNKNOWN_GAME
        assert caught.value.metadata == {"known": "a, b"}
        with pytest.raises(grpc.aio.AioRpcError, match="plain abort"):
            await call(channel, kind, b"abort")


async def test_a_message_over_the_cap_says_both_numbers():
    async with kinds_server() as (_, _, channel):
        for request in (bytes(MESSAGE_CAP + 1), b"large"):
            with pytest.raises(PotluckError) as caught, typed_errors("the server"):
                await call(channel, "UnaryUnary", request)
            assert caught.value.reason == Reason.MESSAGE_TOO_LARGE
            assert caught.value.metadata["limit"] == str(MESSAGE_CAP)
            assert int(caught.value.metadata["size"]) > MESSAGE_CAP
        below = bytes(MESSAGE_CAP - 1024)
        assert len(await call(channel, "UnaryUnary", below)) == len(below) + 5


async def test_a_message_over_the_server_s_cap_is_typed_even_if_the_client_has_none():
    async with kinds_server() as (_, server, _):
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(server.address, options) as channel:
            with pytest.raises(PotluckError) as caught, typed_errors():
                await channel.unary_unary(f"/{SERVICE}/UnaryUnary")(bytes(MESSAGE_CAP + 1))
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


async def test_a_method_that_is_not_there_is_typed():
    async with kinds_server() as (_, _, channel):
        with pytest.raises(PotluckError) as caught, typed_errors():
            await channel.unary_unary("/test.Other/Method")(b"")
    assert caught.value.reason == Reason.UNSUPPORTED


async def test_a_call_that_ends_while_it_is_written_to_is_lost_or_says_why():
    """grpc.aio drops the status of some such calls; what is left reads like an accident of the server."""
    server = await serve(
        lambda s: add_PolicyServiceServicer_to_server(Leaves(), s), services=[POLICY], bind="127.0.0.1:0"
    )
    channel = connect(server.address)
    reasons = Counter()
    try:
        for _ in range(300):
            stream = PolicyServiceStub(channel).ChooseStream()
            writing = asyncio.create_task(stream.write(pb.ChooseStreamRequest(cancel="a")))
            with pytest.raises(PotluckError) as caught, typed_errors():
                await stream.read()
            reasons[caught.value.reason] += 1
            await asyncio.gather(writing, return_exceptions=True)
    finally:
        await channel.close()
        await server.stop()
    assert set(reasons) <= {Reason.UNSUPPORTED, Reason.UNREACHABLE}


def test_a_status_that_grpc_lost_is_no_accident_of_the_server():
    lost = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, None, None, "Internal error from Core")
    assert from_rpc(lost, "there").reason == Reason.UNREACHABLE
    own = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, None, None, "an accident")
    assert from_rpc(own, "there").reason == Reason.INTERNAL


async def test_more_calls_than_allowed_are_refused_as_overload():
    async with kinds_server(max_concurrent=1) as (kinds, _, channel):
        first = channel.unary_unary(f"/{SERVICE}/UnaryUnary")(b"wait")
        await kinds.entered.wait()
        with pytest.raises(PotluckError) as caught, typed_errors():
            await call(channel, "UnaryUnary", b"fine")
        kinds.release.set()
        assert await first == b"done wait"
        assert await call(channel, "UnaryUnary", b"fine") == b"done fine"
    assert caught.value.reason == Reason.OVERLOADED


async def test_without_the_edge_the_text_would_leak():
    """The control of the leak test: gRPC by itself sends the exception's text."""
    from .four_kinds import Kinds

    server = grpc.aio.server()
    Kinds().add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError, match=SECRET):
            await call(channel, "UnaryUnary", b"crash", security=Security())
    await server.stop(None)


def test_a_hint_when_to_try_again_travels_in_both_forms():
    status = PotluckError(Reason.OVERLOADED, "full", "wait", retry_after_s="1.250").status()
    hint = RetryInfo()
    assert [detail.Unpack(hint) for detail in status.details] == [False, True]
    assert hint.retry_delay.ToMilliseconds() == 1250
    assert from_status(status).retry_after_s == 1.25
    assert len(PotluckError(Reason.OVERLOADED, "full").status().details) == 1


@pytest.mark.parametrize("value", ["soon", "nan", "inf", "-1", "1e300", ""])
def test_a_hint_that_is_none_is_left_out(value):
    error = PotluckError(Reason.OVERLOADED, "full", retry_after_s=value)
    assert error.retry_after_s is None
    assert len(error.status().details) == 1
