"""Tracing of one process: an exporter if an OTLP endpoint is configured, and nothing at all otherwise.

`configure("potluck-envs")` is called once, after the process was spawned (a provider does not survive fork). Without
`OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` it returns None and imports no SDK; with one, the
other standard variables hold too (`OTEL_SDK_DISABLED`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`,
`OTEL_TRACES_SAMPLER_ARG` as the ratio of traces that are kept, 1 by default). `shutdown()` sends what is queued and
logs how many spans were sent and lost; `run_until_signal` calls it, and so does interpreter exit.

API: `configure(service) -> Telemetry | None`, `shutdown()`, `Telemetry(.sent .dropped, flush(), shutdown())`.
"""

import atexit
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from potluck.rpc.errors import PotluckError, Reason

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from potluck.telemetry.exporting import Telemetry

_LOG = logging.getLogger("potluck.telemetry")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_configured: "Telemetry | None" = None


def configure(
    service: str, exporter: "SpanExporter | None" = None, env: Mapping[str, str] = os.environ
) -> "Telemetry | None":
    """Starts tracing for this process if an endpoint (or an exporter) is there. A second call changes nothing."""
    global _configured
    if _configured is not None:
        return _configured
    wanted = exporter is not None or any(env.get(name) for name in _ENDPOINTS)
    if not wanted or env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from potluck.telemetry.exporting import start
    except ImportError as error:
        raise PotluckError(
            Reason.UNSUPPORTED,
            "an OTLP endpoint is set and the OpenTelemetry SDK is not installed",
            "install the extra potluck-proto[otel], or unset OTEL_EXPORTER_OTLP_ENDPOINT",
        ) from error
    _configured = start(service, exporter, env)
    atexit.register(shutdown)
    return _configured


def shutdown() -> None:
    """Sends what is queued and ends tracing. Does nothing where none was started or it has ended."""
    if _configured is not None and _configured.shutdown():
        _LOG.info("tracing ended: %d spans sent, %d lost", _configured.sent, _configured.dropped)
