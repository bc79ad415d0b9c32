"""One Play stream: its episodes by id, retries, refusals, and where each episode lives.

Commands of an episode are carried out one at a time, in order; commands of different episodes go to their workers
together, one message per worker and request. Everything that needs no engine is answered here: repeated request ids,
unknown, taken and finished ids, episodes lost with their worker. Finished episodes keep their recording, so that they
can be forked, until newer ones crowd them out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason
from potluck_envs.errors import (
    EnvError,
    EpisodeExists,
    EpisodeFinished,
    InvalidField,
    UnknownEpisode,
)
from potluck_envs.host import Job, Kind, Result, framed
from potluck_envs.spans import EpisodeSpan

MAX_RUNNING = 4096
MAX_ENDED = 1024
MAX_ENDED_BYTES = 64 << 20
RESPONSE_BYTES = 4 << 20
RETRIES = 8
"""Updates kept per running episode for repeated request ids; older choices are refused by their boundary."""


class Home(Protocol):
    """Where episodes live: a worker process, or a host in this one."""

    @property
    def index(self) -> int: ...

    def run(self, jobs: Sequence[Job]) -> None:
        """Carries out jobs; their owners get the results."""

    def release(self, key: int) -> None:
        """An episode has ended there."""

    def drop(self, keys: Sequence[int]) -> None:
        """Forgets running episodes."""


class Homes(Protocol):
    """Gives new episodes a home."""

    def place(self, owner: Session, index: int | None) -> tuple[int, Home]:
        """A key and a home, the one of this index if given."""
        ...


class State(Enum):
    """Of an episode id."""

    FREE = 0
    RUNNING = 1
    FINISHED = 2


@dataclass(slots=True)
class Slot:
    """An episode id."""

    episode: str
    state: State = State.FREE
    key: int = 0
    worker: Home | None = None
    current: pb.Command | None = None
    """The command that is being carried out."""
    waiting: deque[pb.Command] = field(default_factory=deque)
    then: list[Callable[[], None]] = field(default_factory=list)
    """Forks from this episode that wait until it stands still."""
    answered: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    lost: EnvError | None = None
    """Why the episode is lost, until the client has been told."""
    recording: bytes = b""
    span: EpisodeSpan | None = None


class Session:
    """The server's side of one stream."""

    def __init__(self, pool: Homes) -> None:
        self._pool = pool
        self._slots: dict[str, Slot] = {}
        self._by_key: dict[int, Slot] = {}
        self._ended_sizes: OrderedDict[str, int] = OrderedDict()
        self._ended_bytes = 0
        self._jobs: dict[int, tuple[Home, list[Job]]] = {}
        self._out: list[bytes] = []
        self._wake = asyncio.Event()
        self._busy = 0
        self._ended = False
        self._draining = False

    # The stream's side

    def submit(self, request: pb.PlayRequest) -> None:
        """Takes a request's commands."""
        for command in request.commands:
            slot = self._slots.get(command.episode_id)
            if slot is not None and slot.current is not None:
                slot.waiting.append(command)
            else:
                self._execute(command)
        self._flush()

    def end_input(self) -> None:
        """No more requests will come."""
        self._ended = True
        self._wake.set()

    def drain(self) -> None:
        """Refuses new episodes; the stream ends with the last running one."""
        self._draining = True
        self._wake.set()

    async def output(self) -> bytes | None:
        """The next serialized PlayResponse, or None once everything is answered and no more can come."""
        while not self._out:
            if not self._busy and (self._ended or (self._draining and not self._by_key)):
                return None
            self._wake.clear()
            await self._wake.wait()
        return self.take()

    def take(self) -> bytes:
        """What is ready now, as a serialized PlayResponse of a sensible size."""
        size = count = 0
        while count < len(self._out) and size < RESPONSE_BYTES:
            size += len(self._out[count])
            count += 1
        out, self._out = self._out[:count], self._out[count:]
        return b"".join(out)

    def close(self) -> None:
        """Forgets all episodes."""
        for slot in list(self._by_key.values()):
            if slot.worker:
                slot.worker.drop([slot.key])
            if slot.span:
                slot.span.abandon()
        self._by_key.clear()
        self._slots.clear()

    def key(self, episode: str) -> int:
        """The key of a running episode."""
        return self._slots[episode].key

    # The pool's side

    def results(self, results: Sequence[Result]) -> None:
        """Answers of a worker."""
        for result in results:
            slot = self._by_key.get(result.key)
            if slot is not None:
                self._settle(slot, result)
        self._flush()

    def lost(self, keys: Sequence[int], error: EnvError) -> None:
        """Episodes that went down with their worker: told now where a command is open, else at the next one."""
        for key in keys:
            slot = self._by_key.pop(key, None)
            if slot is None:
                continue
            if slot.span:
                slot.span.fail(error.reason)
                slot.span = None
            slot.state, slot.worker = State.FREE, None
            if slot.current is None:
                slot.lost = error
            else:
                self._answer(slot, slot.current, _failed(slot.current, error))
        self._flush()

    # Commands

    def _execute(self, command: pb.Command) -> None:
        slot = self._slots.get(command.episode_id)
        if slot is not None and command.request_id and command.request_id in slot.answered:
            self._emit(slot.answered[command.request_id])
            return
        try:
            self._dispatch(slot, command)
        except PotluckError as error:
            update = _refused(command, error)
            if slot is not None and command.request_id:
                slot.answered[command.request_id] = update
            self._emit(update)

    def _dispatch(self, slot: Slot | None, command: pb.Command) -> None:
        action = command.WhichOneof("action")
        if action is None:
            raise InvalidField("command.action", "none is set", "set start, choose, fork or stop")
        if action in ("start", "fork"):
            self._begin(slot, command)
        elif slot is not None and slot.lost is not None:
            error, slot.lost = slot.lost, None
            self._answer(slot, command, _failed(command, error))
        elif slot is None or slot.state is State.FREE:
            raise UnknownEpisode(command.episode_id)
        elif slot.state is State.FINISHED:
            raise EpisodeFinished(command.episode_id)
        else:
            self._send(slot, command, Job(slot.key, command.SerializeToString()))

    def _begin(self, slot: Slot | None, command: pb.Command) -> None:
        if not command.episode_id:
            raise InvalidField("command.episode_id", "it is empty", "choose an id that is new on this stream")
        if slot is not None and slot.state is not State.FREE:
            raise EpisodeExists(command.episode_id)
        if self._draining:
            raise PotluckError(Reason.DRAINING, "the server is shutting down", "start the episode at another server")
        if len(self._by_key) >= MAX_RUNNING:
            raise PotluckError(Reason.OVERLOADED, f"{MAX_RUNNING} episodes run on this stream", "end some, or wait")
        source = self._source(command) if command.HasField("fork") else None
        slot = slot or self._slots.setdefault(command.episode_id, Slot(command.episode_id))
        slot.lost = None
        if source is None or source.current is None:
            self._place(slot, command, source)
        else:
            self._hold(slot, command)
            source.then.append(lambda: self._place_or_refuse(slot, command))

    def _source(self, command: pb.Command) -> Slot | None:
        fork = command.fork
        if fork.HasField("recording"):
            return None
        if not fork.HasField("episode_id"):
            raise InvalidField("fork.source", "there is none", "name an episode of this stream or send a recording")
        source = self._slots.get(fork.episode_id)
        if source is None or (source.current is None and source.state is State.FREE):
            raise UnknownEpisode(fork.episode_id)
        return source

    def _place_or_refuse(self, slot: Slot, command: pb.Command) -> None:
        self._busy -= 1
        slot.current = None
        try:
            self._place(slot, command, self._source(command))
        except EnvError as error:
            self._hold(slot, command)
            self._answer(slot, command, _refused(command, error))

    def _place(self, slot: Slot, command: pb.Command, source: Slot | None) -> None:
        running = source is not None and source.state is State.RUNNING
        self._unkeep(slot)
        slot.key, slot.worker = self._pool.place(
            self, source.worker.index if running and source and source.worker else None
        )
        self._by_key[slot.key] = slot
        slot.span = EpisodeSpan.begin(command)
        self._send(
            slot,
            command,
            Job(
                slot.key,
                command.SerializeToString(),
                source.key if running and source else None,
                source.recording if source and not running else None,
            ),
        )

    def _send(self, slot: Slot, command: pb.Command, job: Job) -> None:
        assert slot.worker is not None
        self._hold(slot, command)
        self._jobs.setdefault(slot.worker.index, (slot.worker, []))[1].append(job)

    def _hold(self, slot: Slot, command: pb.Command) -> None:
        slot.current = command
        self._busy += 1

    def _flush(self) -> None:
        jobs, self._jobs = self._jobs, {}
        for worker, batch in jobs.values():
            worker.run(batch)

    # Answers

    def _settle(self, slot: Slot, result: Result) -> None:
        assert slot.current is not None
        command, beginning = slot.current, slot.state is State.FREE
        if result.kind is Kind.MENUS:
            slot.state = State.RUNNING
        elif result.kind is Kind.FINISHED:
            self._release(slot, State.FINISHED)
            slot.recording = result.recording
            slot.answered.clear()
        elif result.kind is Kind.FAILED or beginning:
            self._release(slot, State.FREE)
        if slot.span and slot.state is not State.RUNNING:
            slot.span.end(result)
            slot.span = None
        self._answer(slot, command, result.update)

    def _release(self, slot: Slot, state: State) -> None:
        slot.state = state
        self._by_key.pop(slot.key, None)
        if slot.worker:
            slot.worker.release(slot.key)
            slot.worker = None

    def _answer(self, slot: Slot, command: pb.Command, update: bytes) -> None:
        """Ends a command: its update goes out, and what waited for it comes next."""
        if slot.current is command:
            slot.current = None
            self._busy -= 1
        if command.request_id:
            slot.answered[command.request_id] = update
            while len(slot.answered) > RETRIES:
                slot.answered.popitem(last=False)
        self._emit(update)
        then, slot.then = slot.then, []
        for go_on in then:
            go_on()
        while slot.waiting and slot.current is None:
            self._execute(slot.waiting.popleft())
        if slot.state is not State.RUNNING and slot.current is None:
            self._keep(slot)

    def _emit(self, update: bytes) -> None:
        self._out.append(update)
        self._wake.set()

    def _keep(self, slot: Slot) -> None:
        """Remembers an ended episode for retries and forks, and forgets the oldest where there are too many."""
        self._unkeep(slot)
        size = len(slot.recording) + sum(len(update) for update in slot.answered.values())
        self._ended_sizes[slot.episode] = size
        self._ended_bytes += size
        while len(self._ended_sizes) > MAX_ENDED or self._ended_bytes > MAX_ENDED_BYTES:
            episode, dropped = self._ended_sizes.popitem(last=False)
            self._ended_bytes -= dropped
            del self._slots[episode]

    def _unkeep(self, slot: Slot) -> None:
        self._ended_bytes -= self._ended_sizes.pop(slot.episode, 0)


def _refused(command: pb.Command, error: PotluckError) -> bytes:
    update = pb.Update(episode_id=command.episode_id, request_id=command.request_id)
    update.refused.status.CopyFrom(error.status())
    return framed(update)


def _failed(command: pb.Command, error: EnvError) -> bytes:
    update = pb.Update(episode_id=command.episode_id, request_id=command.request_id)
    update.failed.status.CopyFrom(error.status())
    return framed(update)
