"""The part of tracing that needs the SDK: provider, sampler, batching exporter and its counts."""

import logging
import threading
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from potluck.telemetry import names

_LOG = logging.getLogger("potluck.telemetry")
# The SDK's default of 2048 loses most spans of a burst.
_QUEUE = 65_536
_BATCH = 2_048


class _ForceOrRatio(Sampler):
    """Keeps a ratio of traces, and every trace whose root carries potluck.trace.force."""

    def __init__(self, ratio: float) -> None:
        self._ratio = TraceIdRatioBased(ratio)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        if attributes and attributes.get(names.FORCE):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._ratio.should_sample(parent_context, trace_id, name, kind, attributes, links)

    def get_description(self) -> str:
        return f"ForceOrRatio({self._ratio.get_description()})"


class _Ended(SpanProcessor):
    """Counts the spans that should be sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            with self._lock:
                self.count += 1


class _Sending(SpanExporter):
    """Counts the spans that were sent, and says once when sending fails."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._warned = False
        self.count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.count += len(spans)
        elif not self._warned:
            self._warned = True
            _LOG.warning("spans could not be sent: check OTEL_EXPORTER_OTLP_ENDPOINT and the collector behind it")
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class Telemetry:
    """Tracing of this process."""

    def __init__(self, provider: TracerProvider, ended: _Ended, sending: _Sending) -> None:
        self.provider = provider
        self._ended = ended
        self._sending = sending
        self._over = False

    @property
    def sent(self) -> int:
        """Spans that the endpoint took."""
        return self._sending.count

    @property
    def dropped(self) -> int:
        """Spans that ended and were not sent; final after `shutdown`."""
        return self._ended.count - self._sending.count

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Sends what is queued; False if that takes longer."""
        return self.provider.force_flush(int(timeout_s * 1000))

    def shutdown(self) -> bool:
        """Sends what is queued and ends tracing; False if it had ended before."""
        if self._over:
            return False
        self._over = True
        self.provider.shutdown()
        return True


def start(service: str, exporter: SpanExporter | None, env: Mapping[str, str]) -> Telemetry:
    """Installs the process's tracer provider and sends one start-up span, so that a dead endpoint shows at once."""
    if exporter is None:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    ended, sending = _Ended(), _Sending(exporter)
    provider = TracerProvider(
        resource=Resource.create({names.SERVICE_NAME: env.get("OTEL_SERVICE_NAME") or service}),
        sampler=ParentBased(_ForceOrRatio(float(env.get("OTEL_TRACES_SAMPLER_ARG") or "1"))),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(ended)
    batching = BatchSpanProcessor(
        sending,
        max_queue_size=int(env.get("OTEL_BSP_MAX_QUEUE_SIZE") or _QUEUE),
        max_export_batch_size=int(env.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") or _BATCH),
    )
    provider.add_span_processor(batching)
    trace.set_tracer_provider(provider)
    provider.get_tracer("potluck").start_span(names.STARTUP, attributes={names.FORCE: True}).end()
    return Telemetry(provider, ended, sending)
