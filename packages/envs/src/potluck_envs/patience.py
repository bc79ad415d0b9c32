"""A command that is known to take long says so while it lasts, so that it does not pass for a hang.

The env server ends a worker that owes an answer and is silent for the time-out. A game that builds its engine, which on
a crowded machine takes minutes, calls `still_busy` while it waits. Outside of a worker that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable


def _nobody() -> None:
    """There is no server to tell."""


_tell: Callable[[], None] = _nobody


def tell(listener: Callable[[], None]) -> None:
    """Sets who is told; a worker does so once, when it begins."""
    global _tell
    _tell = listener


def still_busy() -> None:
    """The command under way is taking long, as it may."""
    _tell()
