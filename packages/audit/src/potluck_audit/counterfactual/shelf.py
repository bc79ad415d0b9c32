"""Played line-ups on disk, so that an interrupted job goes on where it was and no episode is played twice.

    RUN/audit/coalitions/<sha256 of the key>.json

One file holds one line-up's episodes. Its key says everything that decides them: setting (game, library, base,
temperature, …), each seat's policy by digest, the seeds, and what the episodes were verified against. A file is written
aside, synced and renamed: a half-written one has another name and is never read. Its sha256 covers the rest of it; a
file that does not add up is an error and is never used, since a silent replay would hide a failing disk.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from potluck_audit.errors import AuditError, CannotWrite, NewerSchema

SHELF_VERSION = 1

Key = Mapping[str, Any]


class CorruptCache(AuditError):
    """A played line-up that is not what was sealed."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            "INVALID_ARGUMENT",
            f"audit/coalitions/{file.name} cannot be used ({why})",
            "delete the file, and the line-up is played again",
            field="run",
            file=file.name,
        )


class Played(NamedTuple):
    """One episode of a line-up."""

    seed: int
    sample_seed: int
    team_return: float
    agent_returns: tuple[float, ...]
    steps: int
    digest: str
    """Of the trajectory."""
    recording: bytes = b""
    step_records: bytes = b""
    """potluck.env.v1.Progress, where the line-up was played with every step."""


def key_digest(key: Key) -> str:
    return hashlib.sha256(_canonical(key)).hexdigest()


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


class Shelf:
    """The played line-ups of a run folder."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.folder = run / "audit" / "coalitions"

    def file(self, key: Key) -> Path:
        return self.folder / f"{key_digest(key)}.json"

    def get(self, key: Key) -> tuple[Played, ...] | None:
        """The line-up's episodes, or None where it was not played. Raises CorruptCache, NewerSchema."""
        file = self.file(key)
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as broken:
            raise CorruptCache(file, broken.strerror or type(broken).__name__) from broken
        try:
            data = json.loads(text)
            version = data["schema_version"]
            body, seal = data["body"], data["sha256"]
        except (ValueError, KeyError, TypeError) as broken:
            raise CorruptCache(file, f"{type(broken).__name__}: it is no sealed line-up") from broken
        if not isinstance(version, int) or version > SHELF_VERSION:
            raise NewerSchema(file, version, SHELF_VERSION)
        if hashlib.sha256(_canonical(body)).hexdigest() != seal:
            raise CorruptCache(file, "its sha256 does not fit its contents")
        if body["key"] != json.loads(_canonical(key)):
            raise CorruptCache(file, "it holds another line-up than its name says")
        return tuple(_loaded(row) for row in body["episodes"])

    def put(self, key: Key, played: Sequence[Played]) -> None:
        """Seals a line-up. Raises CannotWrite."""
        body = {"key": key, "episodes": [_saved(one) for one in played]}
        seal = hashlib.sha256(_canonical(body)).hexdigest()
        text = _canonical({"schema_version": SHELF_VERSION, "body": body, "sha256": seal})
        file = self.file(key)
        aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            aside.replace(file)
        except OSError as error:
            raise CannotWrite(self._run, error.strerror or str(error)) from error


def _saved(one: Played) -> dict[str, Any]:
    if not math.isfinite(one.team_return):
        raise ValueError(f"{one.team_return} is no return")
    packed = {name: _pack(getattr(one, name)) for name in ("recording", "step_records") if getattr(one, name)}
    return one._asdict() | {"agent_returns": list(one.agent_returns), "recording": "", "step_records": ""} | packed


def _loaded(row: Mapping[str, Any]) -> Played:
    unpacked = {name: _unpack(row[name]) for name in ("recording", "step_records")}
    return Played(**{**row, "agent_returns": tuple(row["agent_returns"]), **unpacked})


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text)) if text else b""
