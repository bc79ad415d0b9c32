"""The episodes of one process: carries out commands and answers each with one serialized update.

A host knows running episodes only, by a key that its caller gives; ids, retries, finished episodes and refusals for
the lack of an episode are the caller's business (see sessions.py). An EnvError refuses the command and leaves the
episode as it was. Anything else that a game raises loses the episode, and only that one; so does a game whose engine
lives in a process of its own and says that this has died (EngineCrashed) or hangs (EngineTimeout).
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor
from google.rpc.status_pb2 import Status

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.episode import Episode, Mark
from potluck_envs.errors import BrokenPlugin, EngineCrashed, EngineTimeout, EnvError, GameUnavailable
from potluck_envs.forks import Marks
from potluck_envs.frames import replay_with_frames
from potluck_envs.recording import begin, library_of
from potluck_envs.registry import Library, Registry
from potluck_envs.settings import baselines_by_seat, check_detail, start_settings

log = logging.getLogger(__name__)


class Kind(IntEnum):
    """Which outcome an update holds."""

    MENUS = 0
    FINISHED = 1
    FAILED = 2
    REFUSED = 3


class Job(NamedTuple):
    """A command for a host."""

    key: int
    command: bytes
    """A serialized pb.Command."""
    source: int | None = None
    """Key of the running episode that a fork names."""
    recording: bytes | None = None
    """Recording of the finished episode that a fork names."""


class Result(NamedTuple):
    """What came of a job."""

    key: int
    kind: Kind
    update: bytes
    """A framed pb.Update, see `framed`."""
    recording: bytes = b""
    """Of a finished episode."""
    steps: int = 0
    team_return: float = 0.0


def framed(update: pb.Update) -> bytes:
    """An update as a field of a serialized PlayResponse: responses are concatenations of these."""
    return pb.PlayResponse(updates=[update]).SerializeToString()


def _framed_outcome(update: pb.Update, field: str, outcome: pb.Menus | pb.Finished) -> bytes:
    """`framed`, with the outcome put in as serialized: it is large, and a message in a message is copied."""
    outside = update.SerializeToString()
    inside = outcome.SerializeToString()
    head = _FIELD[field] + _varint(len(inside))
    return b"".join((_UPDATES, _varint(len(outside) + len(head) + len(inside)), outside, head, inside))


def _tag(descriptor: Descriptor, field: str) -> bytes:
    """The bytes before the length of a field that is a message."""
    return _varint(descriptor.fields_by_name[field].number << 3 | 2)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_UPDATES = _tag(pb.PlayResponse.DESCRIPTOR, "updates")
_FIELD = {field: _tag(pb.Update.DESCRIPTOR, field) for field in ("menus", "finished")}


class Host:
    """Running episodes by key."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._episodes: dict[int, Episode] = {}
        self._marks = Marks()

    def run(self, job: Job) -> Result:
        """Carries out one command."""
        command = pb.Command.FromString(job.command)
        update = pb.Update(episode_id=command.episode_id, request_id=command.request_id)
        try:
            outcome = self._outcome(job, command)
        except (EngineCrashed, EngineTimeout) as error:
            return self._failed(job, update, error.status())
        except EnvError as error:
            update.refused.status.CopyFrom(error.status())
            return Result(job.key, Kind.REFUSED, framed(update))
        except Exception as error:
            return self._failed(job, update, crash_status(error))
        if isinstance(outcome, pb.Menus):
            return Result(job.key, Kind.MENUS, _framed_outcome(update, "menus", outcome))
        self.drop(job.key)
        recording = outcome.recording.SerializeToString()
        body = _framed_outcome(update, "finished", outcome)
        return Result(job.key, Kind.FINISHED, body, recording, outcome.steps, outcome.team_return)

    def episode(self, key: int) -> Episode:
        """A running episode."""
        return self._episodes[key]

    def drop(self, key: int) -> None:
        """Forgets an episode."""
        if self._episodes.pop(key, None):
            self._marks.forget(_running(key))

    def games(self) -> pb.ListGamesResponse:
        """Every game of every plug-in that can be played here."""
        response = pb.ListGamesResponse()
        for name in self.registry.names():
            try:
                response.games.append(self.registry.library(name).info)
            except (BrokenPlugin, GameUnavailable) as error:
                log.warning("%s", error)
        return response

    def replay(self, request: pb.ReplayRequest) -> pb.ReplayResponse:
        """Re-executes a recording. Raises EnvError."""
        try:
            library = library_of(self.registry, request.recording)
            return replay_with_frames(begin(library, request.recording), request.recording, request.frames)
        except EnvError:
            raise
        except Exception as error:
            raise crashed(error) from error

    def _outcome(self, job: Job, command: pb.Command) -> pb.Menus | pb.Finished:
        action = command.WhichOneof("action")
        if action == "choose":
            return self._episodes[job.key].choose(command.choose)
        if action == "stop":
            return self._episodes[job.key].stop()
        episode = self._start(command.start) if action == "start" else self._fork(job, command.fork)
        outcome = episode.advance()
        self._episodes[job.key] = episode
        return outcome

    def _failed(self, job: Job, update: pb.Update, status: Status) -> Result:
        self.drop(job.key)
        update.failed.status.CopyFrom(status)
        return Result(job.key, Kind.FAILED, framed(update))

    def _start(self, start: pb.Start) -> Episode:
        library = self.registry.library(start.game)
        settings, baselines = start_settings(library, start)
        return Episode.start(library, settings, baselines)

    def _fork(self, job: Job, fork: pb.Fork) -> Episode:
        detail = check_detail(fork.detail, "fork.detail")
        library, mark = self._mark(job, fork)
        baselines = baselines_by_seat(library, fork.baselines, "fork.baselines")
        episode = Episode.resume(library, mark, detail)
        episode.rebase(baselines, fork.reseed if fork.HasField("reseed") else None)
        return episode

    def _mark(self, job: Job, fork: pb.Fork) -> tuple[Library, Mark]:
        if job.source is not None:
            source = self._episodes[job.source]
            if fork.boundary == source.boundary:
                return source.library, source.mark()
            library, recording, identity = source.library, source.recording(), _running(job.source)
        else:
            recording = pb.Recording.FromString(job.recording) if job.recording is not None else fork.recording
            library = library_of(self.registry, recording)
            identity = hashlib.sha256(recording.SerializeToString(deterministic=True)).hexdigest()
        return library, self._marks.at(identity, library, recording, fork.boundary)


def crashed(error: Exception) -> EngineCrashed:
    """The wire's view of an exception inside a game: its type, and an id that finds the rest in the log."""
    error_id = uuid.uuid4().hex[:12]
    log.error("a game raised, error id %s", error_id, exc_info=error)
    return EngineCrashed(f"the game raised {type(error).__name__} (error id {error_id})", error_id=error_id)


def crash_status(error: Exception) -> Status:
    """`crashed` as a status."""
    return crashed(error).status()


def _running(key: int) -> str:
    return f"running/{key}"
