"""Seals parts: written aside, fsynced, renamed; after that immutable.

A part that does not fit onto the disk stays in memory and is tried again, first as long as there is patience, then at
the next call. Nothing that was sealed before is touched.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from potluck_trainer.errors import DiskFullError, RecordError
from potluck_trainer.records.rows import Part, Row
from potluck_trainer.records.schema import SCHEMA_VERSION, TABLES

Written = TypeVar("Written")

FULL = (errno.ENOSPC, errno.EDQUOT)

log = logging.getLogger(__name__)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full disk becomes a typed error."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL or "No space left" in str(error):
            raise DiskFullError(
                f"no space left while writing {path}; free space on that disk. Sealed files are whole, what is not "
                "yet sealed is kept in memory and tried again; if the run stops, --resume goes on from the last round"
            ) from error
        raise RecordError(f"cannot write {path}: {error.strerror or error}; check the folder and its rights") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Replaces a file whole or not at all, and makes it survive a crash."""
    aside = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            sync_folder(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Adds a line and makes it survive a crash; a torn last line is the reader's to ignore."""
    with disk_errors(path):
        size = path.stat().st_size if path.exists() else 0
        try:
            with path.open("ab") as file:
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            if path.exists():
                os.truncate(path, size)
            raise


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for space on a full disk before giving up."""

    seconds: float = 0.0
    warn: Callable[[str], None] = log.warning
    pause_s: float = 5.0

    def keep_trying(self, write: Callable[[], Written]) -> Written:
        """Repeats a write that can be repeated until it fits."""
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                return write()
            except DiskFullError as error:
                if time.monotonic() >= deadline:
                    raise
                self.warn(f"{error}; trying again for another {deadline - time.monotonic():.0f} s")
                time.sleep(self.pause_s)


class RecordWriter:
    """Writes the parts of one run folder."""

    def __init__(self, run_dir: Path, patience: Patience | None = None) -> None:
        self._run_dir = run_dir
        self._patience = patience or Patience()
        self._pending: list[Part] = []

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of the parts that are not sealed yet."""
        return tuple(part.name for part in self._pending)

    def seal(self, part: Part) -> None:
        """Seals a part, and any that could not be sealed before."""
        self._pending.append(part)
        self.flush()

    def replace(self, part: Part) -> None:
        """Seals an evaluation set in place of an earlier one; its texts stay, since other parts may name them."""
        texts, number = self._run_dir / "texts", 0
        while (texts / f"{part.name}-{number}.parquet").exists():
            number += 1
        seal_rows(texts / f"{part.name}-{number}.parquet", "texts", part.texts)
        seal_rows(self._run_dir / "decisions" / f"{part.name}.parquet", "decisions", part.decisions)
        seal_rows(self._run_dir / "episodes" / f"{part.name}.parquet", "episodes", part.episodes)

    def flush(self) -> None:
        """Seals what is pending, waiting for space as long as there is patience."""
        while self._pending:
            self._patience.keep_trying(lambda: self._seal(self._pending[0]))
            self._pending.pop(0)

    def _seal(self, part: Part) -> None:
        for table, rows in part.tables().items():
            path = self._run_dir / table / f"{part.name}.parquet"
            if not path.exists():
                seal_rows(path, table, rows)


def seal_rows(path: Path, table: str, rows: list[Row]) -> None:
    """One sealed file."""
    schema = TABLES[table].with_metadata({"schema_version": str(SCHEMA_VERSION)})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    write_atomic(path, sink.getvalue().to_pybytes())
