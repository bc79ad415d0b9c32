"""Supervised worker processes, seen from the server's event loop.

Workers are spawned, never forked, and the server's process holds no engine. Each has one socket; a message out may
hold many jobs. A worker that dies, or says nothing for the time-out while it owes answers, is replaced, and its owner
is told once which keys are lost and why. Other workers do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import os
import pickle
import signal
import socket
from collections.abc import Iterable, Sequence
from multiprocessing.context import SpawnProcess
from typing import Protocol

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.errors import EngineCrashed, EngineTimeout, EnvError
from potluck_envs.host import Job, Result
from potluck_envs.patience import Limits
from potluck_envs.worker import HEADER, Ask, Do, Said, pack
from potluck_envs.worker import main as worker_main

START_SECONDS = 90.0
MAX_PAUSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Owner(Protocol):
    """Who put an episode into a pool."""

    def results(self, results: Sequence[Result]) -> None:
        """Answers to its jobs."""

    def lost(self, keys: Sequence[int], error: EnvError) -> None:
        """Episodes that went down with their worker."""


def default_workers() -> int:
    """One per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Handle:
    """One worker and its successors."""

    def __init__(self, index: int, limits: Limits) -> None:
        self.index = index
        self.keys: dict[int, Owner] = {}
        """Episodes that live here."""
        self.owed = 0
        """Answers that are outstanding."""
        self._limits, self._timeout = limits, limits.timeout
        self._tickets: dict[int, asyncio.Future[bytes]] = {}
        self._ticket = itertools.count(1)
        self._process: SpawnProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: list[bytes] = []
        self._ready = False
        self._heard = 0.0
        self._timed_out = False
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the present worker."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Begins to keep a worker alive."""
        self._task = asyncio.create_task(self._keep_alive())
        self._watch = asyncio.create_task(self._watchdog())

    async def stop(self) -> None:
        """Ends the worker."""
        for task in (self._watch, self._task):
            if task:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._reap()

    def run(self, jobs: Sequence[Job]) -> None:
        """Sends jobs; the keys' owners get the results."""
        self._expect(len(jobs))
        self._send(pack(Ask(Do.RUN, jobs)))

    def drop(self, keys: Iterable[int]) -> None:
        """Forgets episodes."""
        known = [key for key in keys if self.keys.pop(key, None)]
        if known:
            self._send(pack(Ask(Do.DROP, known)))

    def release(self, key: int) -> None:
        """An episode has ended here by itself."""
        self.keys.pop(key, None)

    async def ask(self, do: Do, body: bytes = b"") -> bytes:
        """A request outside any episode. Raises EnvError."""
        ticket = next(self._ticket)
        self._tickets[ticket] = asyncio.get_running_loop().create_future()
        self._expect(1)
        self._send(pack(Ask(do, body, ticket)))
        return await self._tickets[ticket]

    def _expect(self, answers: int) -> None:
        if self.owed == 0:
            self._heard = asyncio.get_running_loop().time()
        self.owed += answers

    def _send(self, message: bytes) -> None:
        if self._writer is None:
            self._unsent.append(message)
        else:
            self._writer.write(message)

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            self._ready = False
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._live()
            failures = 0 if self._ready else failures + 1
            await self._bury()
            if failures > 1:
                await asyncio.sleep(min(0.1 * 2**failures, MAX_PAUSE_SECONDS))

    async def _live(self) -> None:
        """One life of a worker: ends by an exception when its socket closes."""
        ours, theirs = socket.socketpair()
        process = multiprocessing.get_context("spawn").Process(
            target=worker_main,
            args=(theirs, log.getEffectiveLevel(), self._limits),
            name=f"potluck-env-{self.index}",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._process = process
        reader, writer = await asyncio.open_connection(sock=ours)
        self._heard = asyncio.get_running_loop().time()
        for message in self._unsent:
            writer.write(message)
        self._writer, self._unsent = writer, []
        while True:
            header = await reader.readexactly(HEADER.size)
            self._take(pickle.loads(await reader.readexactly(HEADER.unpack(header)[0])))

    def _take(self, said: Said) -> None:
        self._heard = asyncio.get_running_loop().time()
        if said.ticket:
            self.owed -= 1
            future = self._tickets.pop(said.ticket)
            if future.done():
                return
            if isinstance(said.answer, bytes):
                future.set_result(said.answer)
            elif said.answer:
                future.set_exception(said.answer)
        elif said.results:
            self.owed -= len(said.results)
            self._deliver(said.results)
        else:
            self._ready = True

    def _deliver(self, results: Sequence[Result]) -> None:
        by_owner: dict[int, tuple[Owner, list[Result]]] = {}
        for result in results:
            if owner := self.keys.get(result.key):
                by_owner.setdefault(id(owner), (owner, []))[1].append(result)
        for owner, mine in by_owner.values():
            owner.results(mine)

    async def _watchdog(self) -> None:
        """Ends a worker that owes answers and has been silent too long."""
        loop = asyncio.get_running_loop()
        while True:
            limit = self._timeout if self._ready else max(self._timeout, START_SECONDS)
            silent = loop.time() - self._heard if self.owed else 0.0
            if self.owed and silent >= limit and self._process and self._process.is_alive():
                self._timed_out = True
                self._process.kill()
            await asyncio.sleep(min(max(limit - silent, 0.05), self._timeout / 4))

    async def _bury(self) -> None:
        # What is placed from here on waits for the next worker and is not lost.
        lost, self.keys = self.keys, {}
        tickets, self._tickets = self._tickets, {}
        self.owed = 0
        self._unsent = []
        exit_code = await self._reap()
        error: EnvError = EngineTimeout(self._timeout) if self._timed_out else EngineCrashed(_cause(exit_code))
        self._timed_out = False
        log.error("worker %d: %s (%d episodes lost)", self.index, error.message, len(lost))
        for future in tickets.values():
            if not future.done():
                future.set_exception(error)
        by_owner: dict[int, tuple[Owner, list[int]]] = {}
        for key, owner in lost.items():
            by_owner.setdefault(id(owner), (owner, []))[1].append(key)
        for owner, keys in by_owner.values():
            owner.lost(keys, error)

    async def _reap(self) -> int | None:
        if self._writer:
            self._writer.close()
            self._writer = None
        process, self._process = self._process, None
        if process is None:
            return None
        await asyncio.to_thread(process.join, 2.0)
        if process.is_alive():
            process.kill()
            await asyncio.to_thread(process.join)
        exit_code = process.exitcode
        process.close()
        return exit_code


def _cause(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"the engine's process ended with exit code {exit_code}"
    return f"the engine's process was ended by {signal.Signals(-exit_code).name}"


class Pool:
    """All workers of a server."""

    def __init__(self, workers: int = 0, limits: Limits | None = None) -> None:
        self.workers = [Handle(index, limits or Limits()) for index in range(workers or default_workers())]
        self._keys = itertools.count(1)
        self._games: bytes | None = None

    async def start(self) -> None:
        """Spawns the workers."""
        for worker in self.workers:
            worker.start()

    async def stop(self) -> None:
        """Ends the workers."""
        await asyncio.gather(*(worker.stop() for worker in self.workers))

    def place(self, owner: Owner, index: int | None = None) -> tuple[int, Handle]:
        """A key for a new episode and the worker that it lives on: the least loaded one unless given."""
        worker = min(self.workers, key=lambda w: len(w.keys)) if index is None else self.workers[index]
        key = next(self._keys)
        worker.keys[key] = owner
        return key, worker

    async def games(self) -> bytes:
        """A serialized ListGamesResponse."""
        if self._games is None:
            self._games = await self._idlest().ask(Do.GAMES)
        return self._games

    async def replay(self, request: pb.ReplayRequest) -> bytes:
        """A serialized ReplayResponse."""
        return await self._idlest().ask(Do.REPLAY, request.SerializeToString())

    def _idlest(self) -> Handle:
        return min(self.workers, key=lambda w: w.owed)
