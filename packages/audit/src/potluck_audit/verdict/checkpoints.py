"""A run's checkpoints as the audit sees them: lines of `checkpoints.jsonl`, read and never written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck_audit.errors import CorruptRecords, InvalidRequest, NewerSchema, UnknownRun
from potluck_audit.records.episode import seat_order
from potluck_audit.records.run import SCHEMA_VERSION

FILE = "checkpoints.jsonl"


@dataclass(frozen=True)
class SavedTeam:
    """The adapters after a round."""

    round: int
    base_digest: str
    adapters: Mapping[str, str]
    """Agent to digest, in seat order."""


def read_checkpoints(run: Path) -> list[SavedTeam]:
    """All checkpoints, oldest first. Raises UnknownRun where there is none, CorruptRecords, NewerSchema."""
    file = run / FILE
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        raise UnknownRun(
            f"{run.name} has no {FILE}", "give a run that `potluck train` wrote; evaluations alone have no checkpoints"
        ) from missing
    except (OSError, UnicodeDecodeError) as broken:
        raise CorruptRecords(file, type(broken).__name__) from broken
    lines = text.split("\n")[:-1]  # an interrupted write has no newline, and its round does not count
    found = [_checkpoint(file, line) for line in lines if line.strip()]
    if not found:
        raise UnknownRun(f"{run.name} has no checkpoint yet", "wait for the first round to be saved")
    return sorted(found, key=lambda one: one.round)


def _checkpoint(file: Path, line: str) -> SavedTeam:
    try:
        data: dict[str, Any] = json.loads(line)
        version = int(data.get("schema_version", 1))
        if version > SCHEMA_VERSION:
            raise NewerSchema(file, version, SCHEMA_VERSION)
        adapters = {agent: str(data["adapters"][agent]) for agent in sorted(data["adapters"], key=seat_order)}
        return SavedTeam(int(data["round"]), str(data["base_digest"]), adapters)
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptRecords(file, f"{type(broken).__name__} in a line") from broken


def pick(saved: Sequence[SavedTeam], rounds: Sequence[int] = (), count: int = 5) -> list[SavedTeam]:
    """Those after the given rounds, or `count` of them spread evenly from the first to the last."""
    if rounds:
        by_round = {one.round: one for one in saved}
        if missing := [r for r in rounds if r not in by_round]:
            raise InvalidRequest(
                "rounds",
                f"there is no checkpoint of round {missing[0]}",
                f"the run has {saved[0].round} to {saved[-1].round}",
            )
        return [by_round[r] for r in sorted(set(rounds))]
    if count < 2:
        raise InvalidRequest("checkpoints", f"{count} checkpoints show no change", "measure at least 2")
    last = len(saved) - 1
    places = {round(last * at / (count - 1)) for at in range(count)}
    return [saved[place] for place in sorted(places)]
