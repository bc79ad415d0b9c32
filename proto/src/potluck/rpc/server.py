"""Opens servers: health, reflection, caps, token, TLS, error mapping, drain.

A server listens on loopback unless it has TLS and a token. On SIGTERM or SIGINT it says NOT_SERVING, refuses new calls
with DRAINING, lets calls in flight go on for a grace period, flushes telemetry and returns; a second signal ends the
grace. One asyncio loop per process serves everything.

    server = await serve(lambda s: add_EnvServiceServicer_to_server(env, s), services=["potluck.env.v1.EnvService"],
                         bind="127.0.0.1:0", on_drain=env.refuse_new_episodes)
    await run_until_signal(server, "env")          # prints "ready env on 127.0.0.1:7001"

API: `serve(add_servicers, *, services, bind, security, max_concurrent, on_drain) -> RunningServer`,
`RunningServer(.address .port .draining, async drain(grace_s), async stop(grace_s))`,
`run_until_signal(server, service, grace_s)`, `announce(service, address)`.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterable

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from potluck.rpc.edge import Edge
from potluck.rpc.errors import PotluckError, Reason
from potluck.rpc.limits import GRACE_S, MAX_CONCURRENT_RPCS, SERVER_OPTIONS
from potluck.rpc.security import Security, is_loopback
from potluck.telemetry import setup

_LOG = logging.getLogger("potluck.rpc")
_LAST_GRACE_S = 0.2
"""For what is no work of ours, such as open health watches."""

AddServicers = Callable[[grpc.aio.Server], None]


class RunningServer:
    """A server that listens."""

    def __init__(
        self,
        server: grpc.aio.Server,
        edge: Edge,
        status: health.aio.HealthServicer,
        address: str,
        on_drain: Callable[[], None] | None,
    ) -> None:
        self._server = server
        self._edge = edge
        self._health = status
        self._on_drain = on_drain
        self.address = address
        self.port = int(address.rpartition(":")[2]) if not address.startswith("unix:") else 0

    @property
    def draining(self) -> bool:
        """Whether new calls are refused."""
        return self._edge.draining

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """Refuses new calls and waits for those in flight, at most the grace period."""
        if not self._edge.draining:
            self._edge.draining = True
            await self._health.enter_graceful_shutdown()
            if self._on_drain is not None:
                self._on_drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._edge.idle(), grace_s)

    async def stop(self, grace_s: float = 0.0) -> None:
        """Drains, then ends whatever is left."""
        await self.drain(grace_s)
        await self._server.stop(_LAST_GRACE_S)


async def serve(
    add_servicers: AddServicers,
    *,
    services: Iterable[str],
    bind: str = "127.0.0.1:0",
    security: Security | None = None,
    max_concurrent: int = MAX_CONCURRENT_RPCS,
    on_drain: Callable[[], None] | None = None,
) -> RunningServer:
    """Starts a server on `bind` (port 0: any free one). Without `security` the environment decides."""
    security = Security.from_env() if security is None else security
    _refuse_insecure(bind, security)
    edge = Edge(security.token)
    server = grpc.aio.server(interceptors=[edge], options=SERVER_OPTIONS, maximum_concurrent_rpcs=max_concurrent)
    add_servicers(server)
    names = list(services)
    status = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    for name in ("", *names):
        await status.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    try:
        address = _listen(server, bind, security.server_credentials())
        await server.start()
    except BaseException:
        await server.stop(None)
        raise
    return RunningServer(server, edge, status, address, on_drain)


async def run_until_signal(server: RunningServer, service: str, grace_s: float = GRACE_S) -> None:
    """Prints the readiness line, serves until SIGTERM or SIGINT, drains and flushes telemetry."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    first, second = asyncio.Event(), asyncio.Event()

    def received() -> None:
        (second if first.is_set() else first).set()

    for number in signals:
        loop.add_signal_handler(number, received)
    try:
        announce(service, server.address)
        await first.wait()
        _LOG.info("draining %s for at most %g s", service, grace_s)
        await _first_of(server.drain(grace_s), second.wait())
        await server.stop(0.0)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        await asyncio.to_thread(setup.shutdown)


def announce(service: str, address: str) -> None:
    """The line on standard output that says a service can be used."""
    sys.stdout.write(f"ready {service} on {address}\n")
    sys.stdout.flush()


async def _first_of(*waits: Coroutine[object, object, object]) -> None:
    tasks = [asyncio.create_task(wait) for wait in waits]

    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


def _refuse_insecure(bind: str, security: Security) -> None:
    if is_loopback(bind):
        return
    needed = {"POTLUCK_TLS_CERT and POTLUCK_TLS_KEY": security.cert, "POTLUCK_TOKEN": security.token}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise PotluckError(
            Reason.INSECURE,
            f"{bind} can be reached from other machines, and these are not set: {', '.join(missing)}",
            "set them, or bind to 127.0.0.1",
            address=bind,
        )


def _listen(server: grpc.aio.Server, bind: str, credentials: grpc.ServerCredentials | None) -> str:
    host, _, number = bind.rpartition(":")
    if not bind.startswith("unix:") and not (host and number.isdecimal() and int(number) < 65536):
        raise _bad_bind(bind, "it is not host:port")
    try:
        port = server.add_secure_port(bind, credentials) if credentials else server.add_insecure_port(bind)
    except RuntimeError as error:
        raise _why_not(bind, host, int(number)) from error
    return bind if bind.startswith("unix:") else f"{host}:{port}"


def _why_not(bind: str, host: str, port: int) -> PotluckError:
    """gRPC says only that binding failed; the socket layer says why."""
    try:
        kind, _, _, _, where = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            probe.bind(where)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return _bad_bind(bind, error.strerror or str(error))
    cure = f"stop the process that holds it, or choose another with --bind {host}:PORT (port 0 takes a free one)"
    return PotluckError(Reason.PORT_IN_USE, f"port {port} on {host} is in use", cure, address=bind)


def _bad_bind(bind: str, why: str) -> PotluckError:
    cure = "use an address such as 127.0.0.1:7001"
    return PotluckError(Reason.INVALID_ARGUMENT, f"cannot listen on {bind!r}: {why}", cure, field="bind")
