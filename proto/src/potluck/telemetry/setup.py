"""Tracing of a service (placeholder until the exporter is wired)."""


def shutdown() -> None:
    """Flushes and ends tracing."""
