"""One JSON line per event on standard output."""

import json
import sys
from collections.abc import Mapping


def say(row: Mapping[str, object]) -> None:
    """Write a row at once, so that a log file can be followed."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
