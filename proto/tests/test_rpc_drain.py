"""Ending a server: calls in flight finish, new ones are refused, and nothing waits for ever."""

import asyncio
import signal
import sys
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.security import Security

from .four_kinds import SERVICE, call, kinds_server

PROGRAM = """
import asyncio, sys
from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1.env_service_pb2_grpc import EnvServiceServicer, add_EnvServiceServicer_to_server
from potluck.rpc.logs import configure_logs
from potluck.rpc.security import Security
from potluck.rpc.server import run_until_signal, serve

class SlowEnv(EnvServiceServicer):
    async def ListGames(self, request, context):
        print("entered", flush=True)
        await asyncio.sleep(float(sys.argv[1]))
        return pb.ListGamesResponse(games=[pb.GameInfo(name="late")])

async def main():
    configure_logs("potluck-slow")
    server = await serve(
        lambda s: add_EnvServiceServicer_to_server(SlowEnv(), s),
        services=["potluck.env.v1.EnvService"],
        security=Security(),
        on_drain=lambda: print("draining", flush=True),
    )
    await run_until_signal(server, "slow", grace_s=float(sys.argv[2]))
    print("over", flush=True)

asyncio.run(main())
"""


async def _start(work_s: float, grace_s: float):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(work_s), str(grace_s),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    line = await _line(process)
    assert line.startswith("ready slow on 127.0.0.1:")
    return process, line.rpartition(" ")[2]


async def _line(process) -> str:
    return (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()


def _games(channel):
    from potluck.env.v1.env_service_pb2 import ListGamesRequest
    from potluck.env.v1.env_service_pb2_grpc import EnvServiceStub

    return EnvServiceStub(channel).ListGames(ListGamesRequest())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_calls_in_flight_finish_and_exits_0(number):
    process, address = await _start(work_s=0.8, grace_s=10)
    async with connect(address, Security()) as channel:
        flying = asyncio.ensure_future(_games(channel))
        assert await _line(process) == "entered"
        process.send_signal(number)
        assert await _line(process) == "draining"
        with pytest.raises(PotluckError) as caught, typed_errors():
            await _games(channel)
        reply = await flying
    assert caught.value.reason == Reason.DRAINING
    assert reply.games[0].name == "late"
    out, err = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, err.decode()
    assert out.decode().split() == ["over"]
    assert b"draining slow" in err
    assert b"Traceback" not in err


async def test_work_longer_than_the_grace_is_cut_off():
    process, address = await _start(work_s=60, grace_s=0.3)
    async with connect(address, Security()) as channel:
        flying = asyncio.ensure_future(_games(channel))
        assert await _line(process) == "entered"
        began = time.monotonic()
        process.terminate()
        with pytest.raises(grpc.aio.AioRpcError):
            await flying
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert time.monotonic() - began < 5


async def test_a_second_signal_ends_the_grace():
    process, address = await _start(work_s=60, grace_s=60)
    async with connect(address, Security()) as channel:
        flying = asyncio.ensure_future(_games(channel))
        assert await _line(process) == "entered"
        process.terminate()
        assert await _line(process) == "draining"
        process.terminate()
        with pytest.raises(grpc.aio.AioRpcError):
            await flying
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0


async def test_draining_shows_in_health_and_refuses_new_calls_with_a_reason():
    async with kinds_server() as (kinds, server, channel):
        flying = channel.unary_unary(f"/{SERVICE}/UnaryUnary")(b"wait")
        await kinds.entered.wait()
        draining = asyncio.ensure_future(server.drain(30))
        await asyncio.sleep(0.05)
        assert server.draining
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert reply.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(PotluckError) as caught, typed_errors():
            await call(channel, "UnaryUnary", b"new")
        assert caught.value.reason == Reason.DRAINING
        with pytest.raises(PotluckError, match="shutting down"):
            await wait_ready(channel, server.address, timeout_s=0.3)
        assert not draining.done()
        kinds.release.set()
        await asyncio.wait_for(draining, 2)
        assert await flying == b"done wait"


async def test_an_open_health_watch_does_not_hold_the_server():
    async with kinds_server() as (_, server, channel):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        began = time.monotonic()
        await server.stop(grace_s=30)
        assert time.monotonic() - began < 2
        watch.cancel()
