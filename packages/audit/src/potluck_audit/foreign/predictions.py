"""What a method says about a log, and the one strict way in which raw answers become it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck_audit.errors import InvalidRequest

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,9}\s*")


@dataclass(frozen=True)
class Prediction:
    """None is an answer that could not be read, or none at all: it counts as wrong and is counted beside."""

    agent: str | None
    step: int | None


NOTHING = Prediction(None, None)


def whole_number(raw: Any) -> int | None:
    """3, "3" and " 3 " are 3; 3.0, "3.0", "step 3", "3 or 4" and true are no whole numbers."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    return int(raw) if isinstance(raw, str) and _WHOLE.fullmatch(raw) else None


def prediction(agent: Any, step: Any) -> Prediction:
    """From raw answers."""
    named = agent.strip() if isinstance(agent, str) else ""
    return Prediction(named or None, whole_number(step))


def read_predictions(file: Path) -> dict[str, Prediction]:
    """`{"Hand-Crafted/7.json": {"agent": "WebSurfer", "step": 12}, ...}`; answers stay as strict as any judge's."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        cure = "give a JSON object of log names to {agent, step}"
        raise InvalidRequest("predictions", f"{file.name} cannot be read ({type(error).__name__})", cure) from error
    if not isinstance(data, dict) or not all(isinstance(one, Mapping) for one in data.values()):
        raise InvalidRequest("predictions", f"{file.name} is no object of objects", "map log names to {agent, step}")
    return {name: prediction(one.get("agent"), one.get("step")) for name, one in data.items()}
