"""Calls: deadlines, retries, request ids, health, reflection."""

import logging
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.limits import UNARY_DEADLINE_S
from potluck.rpc.logs import _AddRequestId, configure_logs, request_id
from potluck.rpc.security import Security

from .four_kinds import SERVICE, call, kinds_server


async def test_the_server_sees_a_deadline_that_nobody_set():
    async with kinds_server() as (kinds, _, channel):
        await call(channel, "UnaryUnary", b"")
        await call(channel, "UnaryUnary", b"", timeout=5)
        await call(channel, "UnaryStream", b"")
        await call(channel, "StreamUnary", b"", timeout=7)
    default, given, stream, upload = kinds.seen
    assert UNARY_DEADLINE_S - 5 < default < UNARY_DEADLINE_S + 1
    assert 3 < given < 6
    assert stream > 3600
    assert 5 < upload < 8


async def test_without_the_interceptor_there_would_be_none():
    async with kinds_server() as (kinds, server, _), grpc.aio.insecure_channel(server.address) as bare:
        await call(bare, "UnaryUnary", b"")
    assert kinds.seen == [None]


async def test_a_deadline_that_passes_is_typed_and_ends_the_work():
    async with kinds_server() as (kinds, _, channel):
        with pytest.raises(PotluckError) as caught, typed_errors():
            await call(channel, "UnaryUnary", b"wait", timeout=0.2)
        assert caught.value.reason == Reason.DEADLINE
        assert await call(channel, "UnaryUnary", b"fine") == b"done fine"
        assert kinds.cancelled == 1


async def test_unavailable_is_tried_again_and_refusals_are_not():
    async with kinds_server() as (kinds, _, channel):
        assert await call(channel, "UnaryUnary", b"flaky") == b"done flaky"
        assert kinds.attempts == 3
        with pytest.raises(PotluckError), typed_errors():
            await call(channel, "UnaryUnary", b"refuse")
        assert kinds.attempts == 4


async def test_request_ids_reach_the_server_and_its_logs(caplog):
    caplog.handler.addFilter(_AddRequestId())
    async with kinds_server() as (kinds, _, channel):
        await call(channel, "UnaryUnary", b"")
        path = f"/{SERVICE}/UnaryUnary"
        with caplog.at_level(logging.ERROR), pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary(path)(b"crash", metadata=(("x-request-id", "mine-1"),))
    assert len(kinds.metadata[0]["x-request-id"]) == 16
    assert kinds.metadata[1]["x-request-id"] == "mine-1"
    assert [record.request_id for record in caplog.records if record.name == "potluck.rpc"] == ["mine-1"]
    assert request_id() == "-"


def test_logs_go_to_stderr_alone(capfd):
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure_logs("potluck-test", "warning")
        logging.getLogger("x").warning("hello")
        out, err = capfd.readouterr()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert out == ""
    assert "potluck-test WARNING [-] x: hello" in err


async def test_health_and_reflection_answer():
    async with kinds_server() as (_, server, channel):
        await wait_ready(channel, server.address)
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICE):
            reply = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        names = [
            service.name
            async for reply in stub.ServerReflectionInfo(iter([request]))
            for service in reply.list_services_response.service
        ]
    assert SERVICE in names


async def test_waiting_for_nobody_ends_with_a_typed_error():
    async with connect("127.0.0.1:1", Security()) as channel:
        began = time.monotonic()
        with pytest.raises(PotluckError, match="check that the server runs") as caught:
            await wait_ready(channel, "127.0.0.1:1", timeout_s=0.3)
    assert time.monotonic() - began < 2
    assert caught.value.reason == Reason.UNREACHABLE
