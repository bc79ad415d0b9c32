"""What every call passes through on its way into a server: token, request id, trace, drain, error mapping.

An exception that a servicer lets out becomes INTERNAL with an error id; its text stays in the server's log. A
`PotluckError` goes out as its status. Health checks need no token, and they and reflection go on while draining.
"""

import asyncio
import contextlib
import hmac
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from potluck.rpc.errors import DETAILS_KEY, PotluckError, Reason, draining, from_rpc
from potluck.rpc.logs import REQUEST_ID, REQUEST_ID_KEY
from potluck.rpc.wrapping import Context, wrap
from potluck.telemetry import names
from potluck.telemetry.context import extract, open_span

_LOG = logging.getLogger("potluck.rpc")
_HEALTH = "/grpc.health."
_INFRASTRUCTURE = (_HEALTH, "/grpc.reflection.")


class Edge(grpc.aio.ServerInterceptor):
    """The one server interceptor."""

    def __init__(self, token: str | None) -> None:
        self._authorization = f"Bearer {token}".encode() if token else None
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    async def idle(self) -> None:
        """Waits until no call is in flight."""
        await self._idle.wait()

    async def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        """Wraps the method's handler."""
        handler = await continuation(details)
        if handler is None:
            return None
        method = details.method
        if method.startswith(_INFRASTRUCTURE):
            return wrap(handler, lambda context: self._infrastructure(method, context))
        traced = not (handler.request_streaming and handler.response_streaming)
        return wrap(handler, lambda context: self._call(method, context, traced))

    @contextlib.asynccontextmanager
    async def _infrastructure(self, method: str, context: Context) -> AsyncIterator[None]:
        async with _mapped(method, context, None):
            if not method.startswith(_HEALTH):
                self._authenticate(_metadata(context))
            yield

    @contextlib.asynccontextmanager
    async def _call(self, method: str, context: Context, traced: bool) -> AsyncIterator[None]:
        metadata = _metadata(context)
        # Neither variable is reset: a call has its own task, and a stream may be closed from another one.
        REQUEST_ID.set(_printable(metadata.get(REQUEST_ID_KEY)) or uuid.uuid4().hex[:16])
        span = _begin(method, metadata) if traced else None
        self._enter()
        try:
            async with _mapped(method, context, span):
                self._authenticate(metadata)
                if self.draining:
                    raise draining()
                yield
        finally:
            self._leave()
            if span is not None:
                span.end()

    def _authenticate(self, metadata: Mapping[str, str]) -> None:
        if self._authorization is None:
            return
        given = metadata.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._authorization):
            cure = "set POTLUCK_TOKEN to the server's token"
            raise PotluckError(Reason.UNAUTHENTICATED, "the bearer token is missing or wrong", cure)

    def _enter(self) -> None:
        self._active += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._idle.set()


@contextlib.asynccontextmanager
async def _mapped(method: str, context: Context, span: Span | None) -> AsyncIterator[None]:
    try:
        yield
    except grpc.aio.AbortError:
        raise  # abort() works by raising
    except Exception as error:
        left_out = isinstance(error, NotImplementedError) and context.code() is grpc.StatusCode.UNIMPLEMENTED
        await _abort(method, context, span, _not_here(method) if left_out else as_typed(error, method))


def _not_here(method: str) -> PotluckError:
    """A method that a servicer took over from its generated base, which says so by status and exception."""
    return PotluckError(Reason.UNSUPPORTED, f"this server has no {method}", "ask a server that offers it")


def as_typed(error: BaseException, what: str) -> PotluckError:
    """The error as a client may see it: what is not ours becomes INTERNAL with an id, and its text stays in the log."""
    if isinstance(error, PotluckError):
        return error
    if isinstance(error, grpc.RpcError):
        return from_rpc(error)
    error_id = uuid.uuid4().hex[:12]
    _LOG.error("%s failed, error id %s", what, error_id, exc_info=error)
    cure = "look for the id in the server's log"
    return PotluckError(Reason.INTERNAL, f"internal error {error_id}", cure, error_id=error_id)


async def _abort(method: str, context: Context, span: Span | None, error: PotluckError) -> None:
    _LOG.info("%s refused: %s: %s", method, error.reason, error.message)
    if span is not None:
        span.set_attribute(names.RPC_STATUS, error.code.name)
        span.set_attribute(names.ERROR_TYPE, error.reason)
        span.set_status(StatusCode.ERROR)
    status = error.status()
    await context.abort(error.code, status.message, ((DETAILS_KEY, status.SerializeToString()),))


def _begin(method: str, metadata: Mapping[str, str]) -> Span:
    name = method.lstrip("/")
    attributes = {names.RPC_SYSTEM: "grpc", names.RPC_METHOD: name, names.REQUEST_ID: REQUEST_ID.get()}
    span = open_span(name, attributes, extract(metadata), SpanKind.SERVER)
    otel.attach(trace.set_span_in_context(span))
    return span


def _metadata(context: Context) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _printable(value: str | None) -> str:
    return value[:64] if value and value.isascii() and value.isprintable() else ""
