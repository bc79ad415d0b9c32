"""A burn-in in a folder: a manifest, sealed shards of consecutive episodes, resumed by running it again.

    <folder>/burnin.json                  what is played, how it is cut, and at the end its digest
    <folder>/episodes-000000-000050.parquet

A shard counts only if it can be read whole, fits the manifest and its sha256 holds; anything else under its name, and
every `*.part`, is reported and played again. The folder is locked while it is worked on. The digest is that of `run` in
one process, however the work was cut, shared or interrupted.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from potluck_optionlib.burnin.errors import (
    BurninBusyError,
    BurninIncompleteError,
    BurninMismatchError,
    BurninStorageError,
    EmptyBurninError,
)
from potluck_optionlib.burnin.features import check_features
from potluck_optionlib.burnin.plan import BurninPlan
from potluck_optionlib.burnin.pool import Factory, Job, play_jobs
from potluck_optionlib.burnin.records import SCHEMA, Burnin
from potluck_optionlib.burnin.shards import PART, Head, read_shard, write_sealed, write_shard
from potluck_optionlib.errors import BurninFormatError

MANIFEST = "burnin.json"
SHARD_EPISODES = 50
_PATTERN = "episodes-*.parquet"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a burn-in has come."""

    done: int
    """Episodes sealed, the ones found in the folder included."""
    total: int
    found: int
    """Episodes that an earlier run had sealed."""
    decisions: int | None
    """Records of this run, where they are counted."""


def play_folder(
    make: Factory,
    plan: BurninPlan,
    folder: Path,
    *,
    workers: int = 1,
    shard_episodes: int = SHARD_EPISODES,
    progress: Callable[[Progress], None] = lambda now: None,
    report: Callable[[str], None] = lambda line: None,
) -> Burnin:
    """Plays a plan into a folder, or goes on with what is there.

    Args:
        make: gives a fresh game; with several workers it is sent to them, so it must pickle.
        workers: processes; 1 plays in this one.
        shard_episodes: episodes a file, where the folder is new.
        progress: called after every sealed shard.
        report: gets a line for whatever was found broken.

    Raises:
        BurninMismatchError: the folder holds another burn-in.
        BurninStorageError, BurninWorkerError, KeyboardInterrupt: the sealed shards are kept.
        FeatureError, EmptyBurninError: the game's records cannot be used.
    """
    game = make()
    head = Head(game.spec.name, game.contracts_digest, tuple(sorted(game.solo_only)), plan)
    _make_folder(folder)
    with _locked(folder):
        size = _agree(folder, head, shard_episodes)
        jobs = [Job(first, min(first + size, plan.episodes)) for first in range(0, plan.episodes, size)]
        left = list(_unsealed(folder, head, jobs, report))
        found = plan.episodes - sum(job.episodes for job in left)
        decisions, done = 0, found
        progress(Progress(done, plan.episodes, found, decisions))
        for job, records in play_jobs(make, head, folder, left, workers):
            decisions, done = decisions + records, done + job.episodes
            progress(Progress(done, plan.episodes, found, decisions))
        burnin = _assemble(folder, head, jobs)
        _write_manifest(folder, head, size, burnin)
    return burnin


def load(path: Path) -> Burnin:
    """Reads a burn-in folder or file and checks that it is whole and as it was written.

    Raises:
        BurninFormatError: unreadable, cut, changed, or of another schema version.
        BurninIncompleteError: not played to its end.
        FeatureError, EmptyBurninError: readable, but nothing can be mined from it.
    """
    if not path.is_dir():
        return _load_file(path)
    manifest, head = _read_manifest(path)
    jobs = _jobs_of(manifest, head, path)
    missing = [job for job in jobs if not job.path(path).is_file()]
    if missing or manifest["digest"] is None:
        raise BurninIncompleteError(
            f"{path}: {len(jobs) - len(missing)} of {len(jobs)} shards are there. Run the same "
            "`potluck-optionlib burnin` command again to finish it."
        )
    burnin = _assemble(path, head, jobs)
    records = manifest["records"]
    if type(records) is not int or records != burnin.records:
        raise BurninFormatError(
            f"{path / MANIFEST}: records is {records!r}, the shards hold {burnin.records}. Run the burn-in again into "
            "another folder."
        )
    if burnin.digest != manifest["digest"]:
        raise BurninFormatError(f"{path} was changed after it was written. Run the burn-in again into another folder.")
    return burnin


def save(burnin: Burnin, path: Path) -> None:
    """Writes a burn-in as one file."""
    head = Head(burnin.game, burnin.contracts_digest, burnin.solo_only, burnin.plan)
    write_shard(path, head, 0, burnin.plan.episodes, burnin.table)


def _load_file(path: Path) -> Burnin:
    shard = read_shard(path)
    if (shard.first, shard.end) != (0, shard.head.plan.episodes):
        raise BurninIncompleteError(
            f"{path} holds episodes {shard.first} to {shard.end - 1} only. Load the folder that it lies in."
        )
    return _checked(shard.head.burnin(shard.table, shard.digests), path)


def _assemble(folder: Path, head: Head, jobs: list[Job]) -> Burnin:
    tables, digests = [SCHEMA.empty_table()], []
    for job in jobs:
        shard = read_shard(job.path(folder))
        if shard.head != head or (shard.first, shard.end) != (job.first, job.end):
            raise BurninFormatError(f"{job.path(folder)} belongs to another burn-in. Run the burn-in again.")
        tables.append(shard.table.replace_schema_metadata(None))
        digests += shard.digests
    return _checked(head.burnin(pa.concat_tables(tables).unify_dictionaries(), digests), folder)


def _checked(burnin: Burnin, path: Path) -> Burnin:
    if not burnin.records:
        raise EmptyBurninError(
            f"{path}: {burnin.plan.episodes} episodes of {burnin.plan.horizon} steps gave no record at all. Play more "
            "episodes, or a horizon that is longer than the options take."
        )
    check_features(burnin.table)
    return burnin


def _unsealed(folder: Path, head: Head, jobs: list[Job], report: Callable[[str], None]) -> Iterator[Job]:
    """Shards that are not there whole; removes what is broken."""
    for rest in sorted(folder.glob(f"*{PART}")):
        report(f"{rest.name}: left over from a run that was cut; played again")
        rest.unlink()
    wanted = {job.path(folder) for job in jobs}
    for stranger in sorted(set(folder.glob(_PATTERN)) - wanted):
        raise BurninMismatchError(f"{stranger} is no shard of this burn-in. Remove it, or play into another folder.")
    for job in jobs:
        path = job.path(folder)
        if not path.exists():
            yield job
            continue
        try:
            shard = read_shard(path)
            whole = shard.head == head and (shard.first, shard.end) == (job.first, job.end)
            why = "holds other records than its name says"
        except BurninFormatError as error:
            whole, why = False, str(error)
        if not whole:
            report(f"{path.name}: {why}; played again")
            path.unlink()
            yield job


def _agree(folder: Path, head: Head, shard_episodes: int) -> int:
    """Episodes a shard; starts the manifest or checks that it is of this burn-in."""
    if shard_episodes < 1:
        raise BurninMismatchError(f"shard_episodes must be at least 1, not {shard_episodes}.")
    if not (folder / MANIFEST).exists():
        if any(folder.glob(_PATTERN)):
            raise BurninMismatchError(f"{folder} holds shards but no {MANIFEST}. Play into another folder.")
        _write_manifest(folder, head, shard_episodes, None)
        return shard_episodes
    manifest, there = _read_manifest(folder)
    differences = [
        f"{name} {mine} != {theirs}"
        for name, theirs, mine in (
            ("game", head.game, there.game),
            ("contracts_digest", head.contracts_digest[:12], there.contracts_digest[:12]),
            ("solo_only", list(head.solo_only), list(there.solo_only)),
        )
        if mine != theirs
    ] + there.plan.differences(head.plan)
    if differences:
        raise BurninMismatchError(
            f"{folder} holds another burn-in: {'; '.join(differences)} (there != asked for). Ask for the same, or play "
            "into another folder."
        )
    return int(manifest["shard_episodes"])


def _write_manifest(folder: Path, head: Head, size: int, burnin: Burnin | None) -> None:
    state = (
        {"records": None, "digest": None} if burnin is None else {"records": burnin.records, "digest": burnin.digest}
    )
    data = {**head.data(), "shard_episodes": size, **state}
    write_sealed(folder / MANIFEST, (json.dumps(data, indent=1) + "\n").encode())


def _read_manifest(folder: Path) -> tuple[dict[str, Any], Head]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        size, _, _ = manifest["shard_episodes"], manifest["digest"], manifest["records"]
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BurninFormatError(f"{folder} is no burn-in folder: {MANIFEST} cannot be read ({why}).") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BurninFormatError(f"{folder} is no burn-in folder: {MANIFEST} cannot be read ({error}).") from error
    if type(size) is not int or size < 1:
        raise BurninFormatError(f"{path}: shard_episodes must be a whole number above 0, not {size!r}.")
    return manifest, Head.parse(manifest, str(path))


def _jobs_of(manifest: dict[str, Any], head: Head, folder: Path) -> list[Job]:
    size, total = manifest["shard_episodes"], head.plan.episodes
    return [Job(first, min(first + size, total)) for first in range(0, total, size)]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BurninStorageError(f"{folder} cannot be made: {error.strerror}. Name another folder.") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BurninBusyError(
                f"{folder}: another burn-in is at work in it. Wait, or name another folder."
            ) from error
        yield
