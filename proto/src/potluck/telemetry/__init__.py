"""Tracing: names, context and set-up. Libraries need opentelemetry-api only; exporting needs the extra `[otel]`."""
