"""The record of a draft: everything that was sent, answered and found out, in one folder.

    <out>/manifest.json              settings, sources, versions, token usage, result; rewritten after every step
    <out>/log.jsonl                  one event a line, appended; files with their sha256
    <out>/versions/000/request.json  the whole conversation as sent
                       reply.json    what came back
                       contracts.py  the module
                       report.json   what was found out about it
                       guards.json, burnin/  the mined library and the records behind it

Files are written aside, flushed and renamed, then logged; a log cut in the middle of a line loses that line only. A
file whose bytes are not those that were logged is refused. A draft that was interrupted goes on from its folder:
replies that were paid for are not asked for again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from potluck_optionlib.drafting.errors import DraftFolderError

LOG, MANIFEST, VERSIONS = "log.jsonl", "manifest.json", "versions"
SCHEMA_VERSION = 1


def sha256(data: bytes) -> str:
    """Hexadecimal."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Log:
    """The events of a draft so far."""

    events: tuple[dict[str, Any], ...]
    damaged: int
    """Lines that are no events: cut when the process ended."""

    def digests(self) -> dict[str, str]:
        """The sha256 of each file as last logged."""
        return {event["file"]: event["sha256"] for event in self.events if "file" in event}


def read_log(folder: Path) -> Log:
    """Reads a log, a running draft's too."""
    path = folder / LOG
    events: list[dict[str, Any]] = []
    damaged = 0
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict):
            events.append(event)
        elif line.strip():
            damaged += 1
    return Log(tuple(events), damaged)


class Journal:
    """Writes one draft's folder."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Opens a new or an interrupted draft. Raises DraftFolderError where the folder holds another one."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._check(identity)
        log = read_log(folder)
        self._digests = log.digests()
        path = folder / LOG
        whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
        self._log = path.open("ab")
        try:
            fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._log.close()
            raise DraftFolderError(f"Another process is at work in {folder}. Wait for it to end.") from error
        if not whole:
            self._log.write(b"\n")
        self.manifest: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **identity, "versions": [], "result": None}
        self.event("opened", damaged_lines=log.damaged)

    def close(self) -> None:
        """Ends the log."""
        self._log.close()

    def event(self, event: str, **data: Any) -> None:
        """Appends one line and flushes it to the disk."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(), "event": event, **data}, ensure_ascii=False)
        self._log.write(line.encode() + b"\n")
        self._log.flush()
        os.fsync(self._log.fileno())

    def keep(self, version: int, name: str, data: bytes) -> str:
        """Writes a file of a version; returns its sha256."""
        file = f"{VERSIONS}/{version:03d}/{name}"
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        return self.note(version, name)

    def note(self, version: int, name: str) -> str:
        """Logs a file of a version that is there; returns its sha256."""
        file = f"{VERSIONS}/{version:03d}/{name}"
        self._digests[file] = sha256((self.folder / file).read_bytes())
        self.event("kept", version=version, file=file, sha256=self._digests[file])
        return self._digests[file]

    def kept(self, version: int, name: str) -> bytes | None:
        """A file that an earlier run wrote. Raises DraftFolderError where it was changed since."""
        file = f"{VERSIONS}/{version:03d}/{name}"
        path = self.folder / file
        if not path.exists():
            return None
        data = path.read_bytes()
        if self._digests.setdefault(file, sha256(data)) != sha256(data):
            raise DraftFolderError(f"{path} was changed after it was written. Use another --out folder.")
        return data

    def version_folder(self, version: int) -> Path:
        """Where a version's files lie."""
        return self.folder / VERSIONS / f"{version:03d}"

    def record(self, **fields: Any) -> None:
        """Sets fields of the manifest and writes it."""
        self.manifest.update(fields)
        write_whole(self.folder / MANIFEST, json.dumps(self.manifest, indent=1, ensure_ascii=False).encode() + b"\n")

    def _check(self, identity: Mapping[str, Any]) -> None:
        path = self.folder / MANIFEST
        if not path.exists():
            if any(self.folder.iterdir()) and not (self.folder / LOG).exists():
                raise DraftFolderError(f"{self.folder} is not empty and holds no draft. Use another --out folder.")
            return
        try:
            known = json.loads(path.read_bytes())
        except ValueError as error:
            raise DraftFolderError(f"{path} cannot be read. Use another --out folder.") from error
        told = json.loads(json.dumps(dict(identity)))
        different = [name for name, value in told.items() if known.get(name) != value]
        if different:
            raise DraftFolderError(
                f"{self.folder} holds a draft with another {', '.join(different)}. Use another --out folder."
            )


def write_whole(path: Path, data: bytes) -> None:
    """Writes aside, flushes and renames."""
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
