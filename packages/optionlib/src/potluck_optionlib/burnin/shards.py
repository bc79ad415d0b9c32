"""Sealed Parquet files of consecutive episodes.

A file is made in memory, written aside, flushed to the disk and renamed, so a name without `.part` is a whole file.
What it holds and the sha256 over its records' canonical form travel in its schema metadata and are checked when it is
read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from potluck_optionlib.burnin.errors import BurninPlanError, BurninStorageError
from potluck_optionlib.burnin.plan import BurninPlan
from potluck_optionlib.burnin.records import SCHEMA, SCHEMA_VERSION, Burnin, episode_digests
from potluck_optionlib.errors import BurninFormatError

PART = ".part"
_KEY = b"potluck"
_MAY_BE_NULL = ("own_changed", "changed")


@dataclass(frozen=True)
class Head:
    """Where records come from: the same for all files of a burn-in."""

    game: str
    contracts_digest: str
    solo_only: tuple[str, ...]
    plan: BurninPlan

    def data(self) -> dict[str, Any]:
        """As plain values, with the schema version."""
        return self.burnin(SCHEMA.empty_table()).head()

    def burnin(self, table: pa.Table, digests: Sequence[bytes] | None = None) -> Burnin:
        """All records of it."""
        return Burnin(self.game, self.contracts_digest, self.solo_only, self.plan, table, digests)

    @classmethod
    def parse(cls, data: Any, origin: str) -> Head:
        """Reads `data`; raises BurninFormatError naming `origin`."""
        try:
            version = data["schema_version"]
            if version != SCHEMA_VERSION:
                raise BurninFormatError(
                    f"{origin} has schema version {version}, this program reads {SCHEMA_VERSION}. "
                    "Run the burn-in again."
                )
            plan = BurninPlan(**data["plan"])
            game, contracts, solo_only = data["game"], data["contracts_digest"], data["solo_only"]
            for name, value in (("game", game), ("contracts_digest", contracts)):
                if not isinstance(value, str):
                    raise TypeError(f"{name} must be text, not {value!r}")
            if not isinstance(solo_only, list) or not all(isinstance(option, str) for option in solo_only):
                raise TypeError(f"solo_only must be a list of names, not {solo_only!r}")
        except (KeyError, TypeError, BurninPlanError) as error:
            raise BurninFormatError(
                f"{origin} does not say where its records come from ({error}). Run the burn-in again into another "
                "folder."
            ) from error
        return cls(game, contracts, tuple(solo_only), plan)


@dataclass(frozen=True)
class Shard:
    """A sealed file, read and checked."""

    head: Head
    first: int
    end: int
    """Episodes [first, end)."""
    table: pa.Table
    digests: list[bytes]
    """sha256 of each episode's records."""


def write_shard(path: Path, head: Head, first: int, end: int, table: pa.Table) -> str:
    """Seals the records of episodes [first, end); returns the sha256 over them."""
    sha256 = _sha256(episode_digests(table, first, end))
    meta = {**head.data(), "episodes": [first, end], "records": table.num_rows, "sha256": sha256}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({_KEY: json.dumps(meta)}), sink, compression="zstd")
    write_sealed(path, sink.getvalue().to_pybytes())
    return sha256


def write_sealed(path: Path, data: bytes) -> None:
    """Writes a file aside, flushes it and renames it; raises BurninStorageError and leaves no rest behind."""
    aside = path.with_name(path.name + PART)
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise BurninStorageError(
            f"{path} could not be written: {error.strerror or error}. What was sealed before is kept: "
            "make room and run the same command again to go on."
        ) from error


def read_shard(path: Path) -> Shard:
    """Reads a sealed file; raises BurninFormatError where it is cut, foreign or changed."""
    if not path.is_file():
        raise BurninFormatError(f"{path}: there is no such file. Make one with `potluck-optionlib burnin`.")
    try:
        table = pq.read_table(path)
        meta = json.loads(table.schema.metadata[_KEY])
        first, end = meta["episodes"]
        told, records = meta["sha256"], meta["records"]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BurninFormatError(
            f"{path} is not a burn-in file, or was cut ({type(error).__name__}). Make one with "
            "`potluck-optionlib burnin`."
        ) from error
    head = Head.parse(meta, str(path))
    if not table.schema.equals(SCHEMA) or type(records) is not int or table.num_rows != records:
        raise BurninFormatError(f"{path} does not have the columns and rows that it says. Run the burn-in again.")
    _check_rows(table, first, end, head.plan, path)
    try:
        digests = episode_digests(table, first, end)
    except (ValueError, RecursionError) as error:
        raise BurninFormatError(f"{path} holds features that are no JSON ({error}). Run the burn-in again.") from error
    if _sha256(digests) != told:
        raise BurninFormatError(f"{path} was changed after it was written. Run the burn-in again.")
    return Shard(head, first, end, table, digests)


def _check_rows(table: pa.Table, first: Any, end: Any, plan: BurninPlan, path: Path) -> None:
    """Raises unless every row lies in [first, end), in the order of play and in the setting that the plan gives it."""
    if type(first) is not int or type(end) is not int or not 0 <= first <= end <= plan.episodes:
        raise BurninFormatError(f"{path}: episodes {first!r} to {end!r} are not in its plan. Run the burn-in again.")
    for name in SCHEMA.names:
        if name not in _MAY_BE_NULL and table.column(name).null_count:
            raise BurninFormatError(f"{path}: column {name!r} has rows without a value. Run the burn-in again.")
    episodes, solo = (table.column(name).to_numpy() for name in ("episode", "solo"))
    if episodes.size and (episodes[0] < first or episodes[-1] >= end or np.any(np.diff(episodes) < 0)):
        raise BurninFormatError(
            f"{path}: column 'episode' has rows outside of episodes {first} to {end - 1}, or out of order. "
            "Run the burn-in again."
        )
    if np.any(solo != (episodes < plan.solo_episodes)):
        raise BurninFormatError(f"{path}: column 'solo' is not what the plan says. Run the burn-in again.")


def _sha256(digests: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
