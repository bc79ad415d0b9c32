"""Judgements as they come, one JSON line each, so that a command that breaks off has paid for nothing twice.

A line is found again by the digest of everything that the answer depends on: the log, the judge, the model and its
settings, and the wording of the prompts. A line that a crash cut off is passed over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from potluck_audit.foreign import prompts
from potluck_audit.foreign.judges import Judgement, Outcome
from potluck_audit.foreign.log import FailureLog
from potluck_audit.foreign.predictions import Prediction


class Journal:
    """The judgements of one judge with one model, in a file that others may share."""

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        self._file = file
        wording = [prompts.SYSTEM, prompts.ALL_AT_ONCE, prompts.ONE_STEP, prompts.WHICH_HALF]
        self._settings = json.dumps([dict(settings), wording], sort_keys=True)
        self._known = dict(filter(None, map(_line, _lines(file))))
        self.found = 0

    def get(self, log: FailureLog) -> Judgement | None:
        """What was judged before, under the log's name of today."""
        judged = self._known.get(self._key(log))
        if judged is None:
            return None
        self.found += 1
        return replace(judged, log=log.name)

    def put(self, log: FailureLog, judged: Judgement) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": self._key(log), **asdict(judged)}, ensure_ascii=False)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")

    def _key(self, log: FailureLog) -> str:
        shown = [log.question, log.ground_truth, [list(message) for message in log.history]]
        return hashlib.sha256(f"{self._settings}\n{json.dumps(shown)}".encode()).hexdigest()


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


def _line(text: str) -> tuple[str, Judgement] | None:
    try:
        data = json.loads(text)
        key, answer, outcome = data.pop("key"), data.pop("answer"), data.pop("outcome")
        return key, Judgement(answer=Prediction(**answer), outcome=Outcome(outcome), **data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
