"""What every call carries on its way out of a client: deadline, token, request id, trace context.

A `timeout` in gRPC's service config never reaches the server, so the deadline is set on each call here. Unary calls and
one-sided streams get a client span. A bidirectional stream serves many traces and gets none; nor does it go through an
interceptor, under which grpc.aio feeds its requests from a task that outlives a failed call: whoever opens one passes
`stream_metadata(security)` and a timeout.
"""

import uuid
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.trace import Span, SpanKind, StatusCode

from potluck.rpc.logs import REQUEST_ID_KEY
from potluck.rpc.security import Security
from potluck.telemetry import names
from potluck.telemetry.context import inject, open_span


def stream_metadata(security: Security) -> tuple[tuple[str, str], ...]:
    """The metadata of a bidirectional stream."""
    token = (("authorization", f"Bearer {security.token}"),) if security.token is not None else ()
    return ((REQUEST_ID_KEY, uuid.uuid4().hex[:16]), *token)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Shared settings of a channel's interceptors."""

    token: str | None
    unary_deadline_s: float
    stream_deadline_s: float

    def prepare(self, details: Any, deadline_s: float, span: Span | None) -> Any:
        """The call's details, completed."""
        carrier: dict[str, str] = {}
        inject(carrier, span)
        if self.token is not None:
            carrier["authorization"] = f"Bearer {self.token}"
        given = details.metadata or ()
        if not any(key == REQUEST_ID_KEY for key, _ in given):
            carrier[REQUEST_ID_KEY] = uuid.uuid4().hex[:16]
        metadata = grpc.aio.Metadata(*given, *carrier.items())
        timeout = deadline_s if details.timeout is None else details.timeout
        return details._replace(metadata=metadata, timeout=timeout)

    async def traced(self, continuation: Any, details: Any, request: Any, deadline_s: float) -> Any:
        """Makes the call inside a client span that ends when the call does."""
        method = details.method
        name = (method.decode() if isinstance(method, bytes) else method).lstrip("/")
        span = open_span(name, {names.RPC_SYSTEM: "grpc", names.RPC_METHOD: name}, kind=SpanKind.CLIENT)
        try:
            call = await continuation(self.prepare(details, deadline_s, span), request)
        except BaseException:
            span.set_status(StatusCode.ERROR)
            span.end()
            raise
        call.add_done_callback(lambda done: _end(span, done))
        return call

    def interceptors(self) -> list[grpc.aio.ClientInterceptor]:
        """One per kind of call: gRPC takes an interceptor for the first kind that it claims only."""
        return [_UnaryUnary(self), _UnaryStream(self), _StreamUnary(self)]


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, outgoing: Outgoing) -> None:
        self._out = outgoing

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._out.traced(continuation, client_call_details, request, self._out.unary_deadline_s)


class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, outgoing: Outgoing) -> None:
        self._out = outgoing

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._out.traced(continuation, client_call_details, request, self._out.stream_deadline_s)


class _StreamUnary(grpc.aio.StreamUnaryClientInterceptor):
    def __init__(self, outgoing: Outgoing) -> None:
        self._out = outgoing

    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await self._out.traced(continuation, client_call_details, request_iterator, self._out.stream_deadline_s)


def _end(span: Span, call: Any) -> None:
    code = _code(call)
    if code is not None:
        span.set_attribute(names.RPC_STATUS, code.name)
        if code is not grpc.StatusCode.OK:
            span.set_attribute(names.ERROR_TYPE, code.name)
            span.set_status(StatusCode.ERROR)
    span.end()


def _code(call: Any) -> grpc.StatusCode | None:
    # The call's own code() is a coroutine; in a done callback the status lies ready behind it.
    status = getattr(getattr(call, "_cython_call", call), "_status", None)
    try:
        return next((code for code in grpc.StatusCode if status and code.value[0] == status.code()), None)
    except AttributeError:
        return None
