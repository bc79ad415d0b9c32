"""What every command of Potluck does about its standard output."""

import contextlib
import os
import sys
from collections.abc import Iterator

BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell counts it."""


@contextlib.contextmanager
def output_may_end() -> Iterator[None]:
    """Whoever reads standard output may stop, as in `| head`: the command then ends quietly with status 141. Help texts
    count, too: they are printed before a command begins, and flushed here."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
        raise SystemExit(BROKEN_PIPE) from None
