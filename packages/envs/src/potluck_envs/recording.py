"""Recordings: re-execution to any boundary or to the end, and the check that it leads where the recording says.

library = library_of(registry, recording)
episode = begin(library, recording)
replay(episode, recording)                    # or reexecute(episode, recording, boundary)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.baselines import Baseline
from potluck_envs.episode import SCHEMA_VERSION, Episode, Settings
from potluck_envs.errors import EnvError, InvalidField, ReplayDiverged, UnknownBoundary
from potluck_envs.registry import Library, Registry
from potluck_envs.settings import baselines_by_seat, check_interface


def library_of(registry: Registry, recording: pb.Recording) -> Library:
    """The recording's library, if it is the one installed here."""
    if recording.schema_version != SCHEMA_VERSION:
        why = f"version {recording.schema_version} is not known here"
        raise InvalidField("recording.schema_version", why, f"send a recording of version {SCHEMA_VERSION}")
    library = registry.library(recording.game)
    if recording.library_digest != library.digest:
        raise ReplayDiverged(
            f"the recording was made with library {recording.library_digest[:12] or '(none)'}, "
            f"{recording.game} has {library.digest[:12]} here",
            recorded=recording.library_digest,
            offered=library.digest,
        )
    return library


def reexecute(episode: Episode, recording: pb.Recording, boundary: int) -> None:
    """Brings an episode that stands at its start or at an earlier boundary to a boundary, its menus on offer.

    Raises UnknownBoundary where there is none.
    """
    try:
        _feed(episode, recording, boundary)
    except ReplayDiverged:
        raise
    except EnvError as error:
        raise ReplayDiverged(f"the recorded choice at boundary {episode.boundary} is not possible: {error}") from error
    if episode.finished or episode.boundary != boundary:
        raise UnknownBoundary(boundary, episode.boundary - 1 if episode.finished else episode.boundary)


def replay(episode: Episode, recording: pb.Recording) -> None:
    """Plays an episode that stands at its start to the recording's end.

    Raises ReplayDiverged where it does not come to the recording's digest.
    """
    try:
        _feed(episode, recording, len(recording.choices))
    except EnvError as error:
        raise ReplayDiverged(f"the recorded choice at boundary {episode.boundary} is not possible: {error}") from error
    if not episode.finished:
        episode.stop()
    found = episode.recording()
    if (found.digest, found.steps) != (recording.digest, recording.steps):
        raise ReplayDiverged(
            f"re-execution came to {found.digest[:12]} after {found.steps} steps, "
            f"the recording says {recording.digest[:12] or '(none)'} after {recording.steps}",
            recorded=recording.digest,
            found=found.digest,
            steps=found.steps,
        )


def begin(library: Library, recording: pb.Recording) -> Episode:
    """The recorded episode at its start, not yet advanced."""
    if not recording.segments or recording.segments[0].boundary != 0:
        raise InvalidField("recording.segments", "the first segment is missing", "send the recording unchanged")
    if recording.horizon == 0:
        raise InvalidField("recording.horizon", "0 steps", "send the recording unchanged")
    interface = check_interface(library, recording.interface, "recording.interface")
    settings = Settings(recording.seed, recording.horizon, interface)
    return Episode.start(library, settings, _baselines(library, recording.segments[0]))


def _feed(episode: Episode, recording: pb.Recording, boundary: int) -> None:
    """Answers as recorded up to a boundary, turning to the segments that the episode has not had yet on the way."""
    episode.advance()
    for segment in recording.segments[len(episode.segments) :]:
        if segment.boundary > boundary:
            break
        _answer(episode, recording.choices, segment.boundary)
        if episode.finished:
            raise ReplayDiverged(f"the episode ended before boundary {segment.boundary}")
        reseed = segment.reseed if segment.HasField("reseed") else None
        episode.rebase(_baselines(episode.library, segment), reseed)
        episode.advance()
    _answer(episode, recording.choices, boundary)


def _answer(episode: Episode, choices: Sequence[pb.Choose], boundary: int) -> None:
    for choose in choices[episode.boundary : boundary]:
        if episode.finished:
            raise ReplayDiverged(f"the episode ended before boundary {choose.boundary}")
        episode.choose(choose)


def _baselines(library: Library, segment: pb.Segment) -> Mapping[int, Baseline]:
    return baselines_by_seat(library, segment.baselines, "recording.segments.baselines")
