"""How long a worker's commands may take, and how one that is known to take long says so.

The env server ends a worker that owes an answer and is silent for the time-out. A game whose engine is a process of its
own gives up on that a little sooner (`step_seconds`), which costs one episode instead of a worker. A game that builds
its engine, which on a crowded machine takes minutes, calls `still_busy` while it waits, for `build_seconds` at most.
Outside of a worker the defaults hold and nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

TIMEOUT_SECONDS = 30.0
BUILD_SECONDS = 300.0
_SOONER = 5 / 6


class Limits(NamedTuple):
    """What a server was started with."""

    timeout: float = TIMEOUT_SECONDS
    """Seconds that one command may take."""
    build: float = BUILD_SECONDS
    """Seconds that the build of an engine may take."""


def _nobody() -> None:
    """There is no server to tell."""


_tell: Callable[[], None] = _nobody
_limits = Limits()


def tell(listener: Callable[[], None]) -> None:
    """Sets who is told; a worker does so once, when it begins."""
    global _tell
    _tell = listener


def allow(limits: Limits) -> None:
    """Sets the limits; a worker does so once, when it begins."""
    global _limits
    _limits = limits


def still_busy() -> None:
    """The command under way is taking long, as it may."""
    _tell()


def step_seconds() -> float:
    """For one answer of an engine: less than the server waits for the worker."""
    return _limits.timeout * _SOONER


def build_seconds() -> float:
    """For the build of an engine, however long a step may take."""
    return _limits.build
