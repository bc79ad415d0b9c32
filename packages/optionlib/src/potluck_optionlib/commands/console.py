"""Where commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from rich.console import Console

ERRORS = Console(stderr=True)


@contextlib.contextmanager
def output_may_end() -> Iterator[None]:
    """Whoever reads standard output may stop, as in `| head`: the command then ends quietly, with status 141."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
        raise SystemExit(141) from None


def say(line: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{line}\n")
