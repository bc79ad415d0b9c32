"""Spans and W3C trace context, with opentelemetry-api alone.

Without the SDK, or without an endpoint, every span here is the API's inert one: nothing is recorded, and a remote
parent still passes through. Where one bidirectional stream serves many traces the context travels in each message as
`potluck.common.v1.TraceContext`.

API: `start_span(name, attributes=None, parent=None, kind=INTERNAL)` (context manager, current inside the block),
`open_span(...)` (not current; the caller ends it), `trace_message(span=None)` -> TraceContext or None,
`parent_of(message)` -> Context or None, `trace_id(span=None)` -> hex or "".
"""

from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from potluck.common.v1.common_pb2 import TraceContext

_TRACER = trace.get_tracer("potluck")
_W3C = TraceContextTextMapPropagator()
Attributes = Mapping[str, AttributeValue]


def start_span(
    name: str, attributes: Attributes | None = None, parent: Context | None = None, kind: SpanKind = SpanKind.INTERNAL
) -> AbstractContextManager[Span]:
    """A span around a block; its parent is the current span unless one is given."""
    return _TRACER.start_as_current_span(name, context=parent, kind=kind, attributes=attributes)


def open_span(
    name: str, attributes: Attributes | None = None, parent: Context | None = None, kind: SpanKind = SpanKind.INTERNAL
) -> Span:
    """A span that is not made current and that the caller ends."""
    return _TRACER.start_span(name, context=parent, kind=kind, attributes=attributes)


def trace_message(span: Span | None = None) -> TraceContext | None:
    """The span (or the current one) as a message, or None outside any trace."""
    carrier: dict[str, str] = {}
    inject(carrier, span)
    return TraceContext(**carrier) if carrier else None


def parent_of(message: TraceContext) -> Context | None:
    """The context that a message carries, to start spans under; None if it carries none."""
    if not message.traceparent:
        return None
    return extract({"traceparent": message.traceparent, "tracestate": message.tracestate})


def inject(carrier: MutableMapping[str, str], span: Span | None = None) -> None:
    """Puts traceparent and tracestate into a carrier such as a dict."""
    _W3C.inject(carrier, trace.set_span_in_context(span) if span is not None else None)


def extract(carrier: Mapping[str, str]) -> Context:
    """The context that a carrier holds; an empty one where it holds none that is valid."""
    return _W3C.extract(carrier)


def trace_id(span: Span | None = None) -> str:
    """The trace's id as 32 hex digits, or "" outside any trace."""
    number = (span or trace.get_current_span()).get_span_context().trace_id
    return trace.format_trace_id(number) if number else ""
