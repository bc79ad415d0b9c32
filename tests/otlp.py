"""A real OTLP receiver for tests: the official gRPC service, keeping every span it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pbg


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, object]


@dataclass
class Receiver(pbg.TraceServiceServicer):
    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)

    def Export(
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for s in scope.spans:
                    attributes = {
                        a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value") for a in s.attributes
                    }
                    self.spans.append(
                        Span(
                            names.get("service.name", ""),
                            s.name,
                            s.trace_id.hex(),
                            s.span_id.hex(),
                            s.parent_span_id.hex(),
                            attributes,
                        )
                    )
        return pb.ExportTraceServiceResponse()

    def by_id(self) -> dict[str, Span]:
        return {s.span_id: s for s in self.spans}

    def ancestors(self, span: Span) -> list[str]:
        """Names from the parent to the root; "?" stands for a parent that never arrived."""
        known, chain = self.by_id(), []
        while span.parent_id:
            if span.parent_id not in known:
                return [*chain, "?"]
            span = known[span.parent_id]
            chain.append(span.name)
        return chain


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Runs a receiver on a free port."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    kept = Receiver()
    pbg.add_TraceServiceServicer_to_server(kept, server)
    kept.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield kept
    finally:
        server.stop(1).wait()
