"""Bounded, visible retries: 429 and 5xx are tried again, after the pause that the endpoint asks for.

Without a `retry-after` header the pause doubles from one second. Nothing else is tried again: a time-out may already
have been paid for, and a refused request stays refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from potluck_optionlib.drafting.endpoints import Client, Message, Reply
from potluck_optionlib.drafting.errors import EndpointError, RateLimitedError, ServerFailedError
from potluck_optionlib.drafting.settings import Endpoint


@dataclass(frozen=True, slots=True)
class Pause:
    """An attempt that failed and will be followed by another."""

    attempt: int
    """The failed one, from 1."""
    attempts: int
    wait_s: float
    asked: bool
    """True where the endpoint named the wait."""
    reason: str
    status: int


def ask(
    client: Client,
    endpoint: Endpoint,
    system: str,
    messages: Sequence[Message],
    seen: Callable[[Pause], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Reply:
    """One reply; `seen` hears of every pause before it begins. Raises the last attempt's error."""
    for attempt in range(1, endpoint.attempts + 1):
        try:
            return client.ask(system, messages)
        except (RateLimitedError, ServerFailedError) as error:
            asked = retry_after(error.retry_after)
            wait = float(2 ** (attempt - 1)) if asked is None else asked
            if attempt == endpoint.attempts:
                raise _spent(error, f"after {attempt} attempts") from error
            if wait > endpoint.longest_wait_s:
                raise _spent(
                    error, f"a wait of {wait:.0f} s is asked for, --longest-wait-s is {endpoint.longest_wait_s:g}"
                ) from error
            seen(Pause(attempt, endpoint.attempts, wait, asked is not None, str(error), error.status))
            sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a `retry-after` header asks for (a number or an HTTP date), None where it says nothing."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return _until(header, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(header: str, now: datetime) -> float | None:
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())


def _spent(error: EndpointError, why: str) -> EndpointError:
    return type(error)(f"{error} Given up: {why}.", error.status)
