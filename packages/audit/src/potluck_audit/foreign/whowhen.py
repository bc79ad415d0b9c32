"""Reads logs of the Who&When format (arXiv:2505.00212): one JSON object a file.

    question, ground_truth      texts (some files say groundtruth)
    history                     [{content, role, name?}, ...]
    mistake_agent               a name
    mistake_step                a whole number from 0, as text or number: the index into history

The author of a message is its `name`, else its `role`; an orchestrator's role carries a suffix in brackets, such as
"Orchestrator (-> WebSurfer)", which is no part of the name. Labels are taken as they are: one that names another agent
than the speaker at its step is kept (`FailureLog.label_agrees` tells).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from potluck_audit.foreign.errors import MalformedLog, NoLogs
from potluck_audit.foreign.log import FailureLog, Message

_SUFFIX = re.compile(r"\s*\([^()]*\)\s*$")
_WHOLE = re.compile(r"\s*[0-9]{1,9}\s*")


def read_folder(folder: Path | str) -> list[FailureLog]:
    """All `.json` files of a folder and its subfolders, in natural order (2.json before 10.json)."""
    root = Path(folder).expanduser()
    files = [f for f in root.rglob("*.json") if not f.name.startswith(".")] if root.is_dir() else []
    if not files:
        raise NoLogs(root)
    return [read_log(file, root) for file in sorted(files, key=lambda f: _natural(f.relative_to(root).as_posix()))]


def read_log(file: Path, root: Path | None = None) -> FailureLog:
    """One file. Raises MalformedLog with the field's name."""
    below = file.relative_to(root or file.parent)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedLog(file, "the file", f"is no JSON ({type(error).__name__})") from error
    except OSError as error:
        raise MalformedLog(file, "the file", f"cannot be read ({error.strerror})") from error
    if not isinstance(data, dict):
        raise MalformedLog(file, "the file", f"holds {_kind(data)} and not an object")
    history = _history(file, data)
    return FailureLog(
        name=below.as_posix(),
        group="" if below.parent == Path() else below.parent.as_posix(),
        question=_text(file, data, "question"),
        ground_truth=_answer(file, data),
        history=history,
        mistake_agent=_agent(file, data),
        mistake_step=_step(file, data, len(history)),
    )


def _history(file: Path, data: dict[str, Any]) -> tuple[Message, ...]:
    raw = _present(file, data, "history")
    if not isinstance(raw, list):
        raise MalformedLog(file, "history", f"is {_kind(raw)} and not a list of messages")
    if not raw:
        raise MalformedLog(file, "history", "is empty")
    return tuple(_message(file, f"history[{at}]", one) for at, one in enumerate(raw))


def _message(file: Path, where: str, raw: Any) -> Message:
    if not isinstance(raw, dict):
        raise MalformedLog(file, where, f"is {_kind(raw)} and not an object")
    for key in ("name", "role"):
        if not isinstance(raw.get(key) or "", str):
            raise MalformedLog(file, f"{where}.{key}", f"is {_kind(raw[key])} and not text")
    author = (raw.get("name") or "").strip() or _SUFFIX.sub("", raw.get("role") or "").strip()
    if not author:
        raise MalformedLog(file, f"{where}.role", "is missing, and so is name: nobody says this")
    content = raw.get("content")
    if content is not None and not isinstance(content, str):
        raise MalformedLog(file, f"{where}.content", f"is {_kind(content)} and not text")
    return Message(author, content or "")


def _agent(file: Path, data: dict[str, Any]) -> str:
    agent = _text(file, data, "mistake_agent").strip()
    if not agent:
        raise MalformedLog(file, "mistake_agent", "is empty")
    return agent


def _step(file: Path, data: dict[str, Any], steps: int) -> int:
    raw = _present(file, data, "mistake_step")
    if isinstance(raw, bool) or not (isinstance(raw, int) or (isinstance(raw, str) and _WHOLE.fullmatch(raw))):
        raise MalformedLog(file, "mistake_step", f"is {json.dumps(raw)[:60]} and not a whole number")
    step = int(raw)
    if not 0 <= step < steps:
        raise MalformedLog(file, "mistake_step", f"is {step} and history has the steps 0 to {steps - 1}")
    return step


def _answer(file: Path, data: dict[str, Any]) -> str:
    """Right answers can be numbers; a log without one is a log."""
    raw = data.get("ground_truth", data.get("groundtruth"))
    if isinstance(raw, dict | list):
        raise MalformedLog(file, "ground_truth", f"is {_kind(raw)} and not text")
    return "" if raw is None else str(raw)


def _text(file: Path, data: dict[str, Any], key: str) -> str:
    raw = _present(file, data, key)
    if not isinstance(raw, str):
        raise MalformedLog(file, key, f"is {_kind(raw)} and not text")
    return raw


def _present(file: Path, data: dict[str, Any], key: str) -> Any:
    if data.get(key) is None:
        raise MalformedLog(file, key, "is missing")
    return data[key]


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]
