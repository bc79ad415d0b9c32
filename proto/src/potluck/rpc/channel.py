"""Opens channels: deadlines, retries, keepalive, caps, TLS, token, trace propagation.

    channel = connect("127.0.0.1:7001")
    await wait_ready(channel, "127.0.0.1:7001")
    with typed_errors("127.0.0.1:7001"):
        games = await EnvServiceStub(channel).ListGames(ListGamesRequest())

API: `connect(address, security=None, *, deadline_s, stream_deadline_s) -> grpc.aio.Channel`,
`wait_ready(channel, address, timeout_s=30.0)`.
"""

import asyncio
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from potluck.rpc.errors import PotluckError, Reason, from_rpc
from potluck.rpc.limits import CLIENT_OPTIONS, STREAM_DEADLINE_S, UNARY_DEADLINE_S
from potluck.rpc.outgoing import Outgoing
from potluck.rpc.security import Security, is_loopback

_POLL_S = 0.1
_CHECK_S = 2.0


def connect(
    address: str,
    security: Security | None = None,
    *,
    deadline_s: float = UNARY_DEADLINE_S,
    stream_deadline_s: float = STREAM_DEADLINE_S,
) -> grpc.aio.Channel:
    """A channel to `host:port`. Without `security` the environment decides. The deadlines are for calls without one."""
    security = Security.from_env() if security is None else security
    credentials = security.channel_credentials()
    outgoing = Outgoing(security.token, deadline_s, stream_deadline_s)
    if credentials is not None:
        return grpc.aio.secure_channel(address, credentials, CLIENT_OPTIONS, interceptors=outgoing.interceptors())
    if security.token is not None and not is_loopback(address):
        raise PotluckError(
            Reason.INSECURE,
            f"the token would travel to {address} in plain text",
            "set POTLUCK_TLS_CA to the PEM file of the authority that signed the server",
            address=address,
        )
    return grpc.aio.insecure_channel(address, CLIENT_OPTIONS, interceptors=outgoing.interceptors())


async def wait_ready(channel: grpc.aio.Channel, address: str, timeout_s: float = 30.0) -> None:
    """Waits until the server's health check says SERVING."""
    stub: health_pb2_grpc.HealthStub = health_pb2_grpc.HealthStub(channel)
    end = time.monotonic() + timeout_s
    last = PotluckError(Reason.UNREACHABLE, f"{address} did not answer within {timeout_s:g} s", _CURE, address=address)
    while (left := end - time.monotonic()) > 0:
        try:
            reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=min(left, _CHECK_S), wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _KEEP_TRYING:
                raise from_rpc(error, address) from error
        else:
            if reply.status == health_pb2.HealthCheckResponse.SERVING:
                return
            last = PotluckError(Reason.DRAINING, f"{address} is shutting down", "start it again or use another server")
        await asyncio.sleep(min(_POLL_S, max(0.0, end - time.monotonic())))
    raise last


_CURE = "check that the server runs and that address and TLS settings are right"
_KEEP_TRYING = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
