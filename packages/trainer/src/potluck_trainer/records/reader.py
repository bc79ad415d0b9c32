"""Reads a run folder, and refuses one that a newer version wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from potluck_trainer.errors import NewerSchemaError, RecordError
from potluck_trainer.records.schema import SCHEMA_VERSION


def check_version(version: int, what: Path) -> None:
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{what} has schema version {version}, this program reads up to {SCHEMA_VERSION}; "
            "use the newer Potluck that wrote it"
        )


def read_part(path: Path) -> pa.Table:
    """A sealed file, by column name."""
    try:
        schema = pq.read_schema(path)
        version = int((schema.metadata or {}).get(b"schema_version", b"0"))
        check_version(version, path)
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise RecordError(
            f"cannot read {path}: {error}; restore it from a copy or delete that round's parts"
        ) from error


def parts(run_dir: Path, table: str) -> list[Path]:
    """Sealed files of a table, in order of name."""
    return sorted((run_dir / table).glob("[!.]*.parquet"))


def text_hashes(run_dir: Path) -> set[str]:
    """Hashes whose texts are already stored."""
    known: set[str] = set()
    for path in parts(run_dir, "texts"):
        known.update(read_part(path).column("hash").to_pylist())
    return known


def texts(run_dir: Path) -> dict[str, str]:
    """All texts by hash."""
    found: dict[str, str] = {}
    for path in parts(run_dir, "texts"):
        table = read_part(path)
        found.update(zip(table.column("hash").to_pylist(), table.column("text").to_pylist(), strict=True))
    return found


def find_episode(run_dir: Path, episode_id: str) -> dict[str, Any]:
    """The row of one episode."""
    for path in parts(run_dir, "episodes"):
        for row in read_part(path).to_pylist():
            if row["episode_id"] == episode_id:
                found: dict[str, Any] = row
                return found
    raise RecordError(f'{run_dir} has no episode "{episode_id}"; `potluck replay {run_dir} --list` names them')


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole JSON lines of a file; a torn last line is left out."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{path} is damaged at line {number}: {error}; restore it from a copy") from error
        yield found
