"""Plays shards in this process, or in several that are started afresh.

Workers seal their shards themselves and say only how many records they hold, so the order in which they finish is of
no account. They ignore Ctrl-C, which is the parent's to handle: it lets them stop at the end of an episode, and
whatever is not sealed then is played by the next run. A worker whose parent has died goes, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple, TypeAlias

from potluck_optionlib.burnin.errors import BurninWorkerError
from potluck_optionlib.burnin.features import check_features
from potluck_optionlib.burnin.play import play_episode
from potluck_optionlib.burnin.records import Ledger
from potluck_optionlib.burnin.shards import Head, write_shard
from potluck_optionlib.errors import ContractMismatchError
from potluck_optionlib.game import SymbolicGame

Factory: TypeAlias = Callable[[], SymbolicGame]


class Job(NamedTuple):
    """Episodes [first, end), one shard."""

    first: int
    end: int

    @property
    def episodes(self) -> int:
        """How many."""
        return self.end - self.first

    def path(self, folder: Path) -> Path:
        """The shard's file."""
        return folder / f"episodes-{self.first:06d}-{self.end:06d}.parquet"


def play_jobs(make: Factory, head: Head, folder: Path, jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, int]]:
    """Plays and seals shards; yields each with its number of records as it is sealed."""
    if workers <= 1 or len(jobs) <= 1:
        game = make()
        for job in jobs:
            yield job, play_shard(game, head, folder, job)
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _begin, (make, head, folder, stop))
    try:
        waiting: dict[Future[int], Job] = {pool.submit(_work, job): job for job in jobs}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BrokenProcessPool as error:
        raise BurninWorkerError(
            "A worker process died (out of memory, or killed). What was sealed is kept: run the same command again, "
            "with fewer workers if memory is short."
        ) from error
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def play_shard(
    game: SymbolicGame, head: Head, folder: Path, job: Job, stopped: Callable[[], bool] = lambda: False
) -> int:
    """Plays one shard and seals it; raises KeyboardInterrupt between episodes once `stopped`."""
    if game.contracts_digest != head.contracts_digest:
        raise ContractMismatchError(
            f"{head.game}: a worker has contracts {game.contracts_digest[:12]}, the burn-in has "
            f"{head.contracts_digest[:12]}. Install the same version everywhere."
        )
    ledger = Ledger()
    for episode in range(job.first, job.end):
        if stopped():
            raise KeyboardInterrupt
        play_episode(game, head.plan, episode, ledger)
    table = ledger.table()
    write_shard(job.path(folder), head, job.first, job.end, table)
    check_features(table)
    return int(table.num_rows)


class _Worker(NamedTuple):
    game: SymbolicGame
    head: Head
    folder: Path
    stop: Event


_here: list[_Worker] = []
"""The worker that this process is."""


def _begin(make: Factory, head: Head, folder: Path, stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _here.append(_Worker(make(), head, folder, stop))


def _work(job: Job) -> int:
    game, head, folder, stop = _here[0]
    with suppress(KeyboardInterrupt):
        return play_shard(game, head, folder, job, stop.is_set)
    return 0


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
