"""Logs of a service: to stderr, one line each, with the id of the request that they belong to.

API: `configure_logs(service, level="INFO")`, `request_id()`.
"""

import contextvars
import logging
import sys

REQUEST_ID_KEY = "x-request-id"
REQUEST_ID: contextvars.ContextVar[str] = contextvars.ContextVar("potluck_request_id", default="-")


def request_id() -> str:
    """The id of the request being served, or "-"."""
    return REQUEST_ID.get()


class _AddRequestId(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = REQUEST_ID.get()
        return True


def configure_logs(service: str, level: str = "INFO") -> None:
    """Sends this process's logs to stderr; standard output is left to the readiness line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_AddRequestId())
    form = f"%(asctime)s {service} %(levelname)s [%(request_id)s] %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
