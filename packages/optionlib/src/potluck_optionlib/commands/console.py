"""Where commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

from rich.console import Console

ERRORS = Console(stderr=True)


def say(line: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{line}\n")
