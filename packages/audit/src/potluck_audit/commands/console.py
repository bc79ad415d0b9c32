"""Where commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

SERVICE = "potluck-audit"


def say(line: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{line}\n")


def tell(line: str) -> None:
    """One line of progress or error, seen at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
