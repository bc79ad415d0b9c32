"""Forks: marks of recorded or running episodes at any boundary, kept so that many forks cost one re-execution.

Nothing is kept while an episode is played. The first fork re-executes it and leaves a mark at every STRIDE-th boundary
on the way; later forks begin at the nearest mark. Marks of the least recently forked episodes are dropped.
"""

from __future__ import annotations

from collections import OrderedDict

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.episode import Episode, Mark
from potluck_envs.errors import UnknownBoundary
from potluck_envs.recording import begin, reexecute
from potluck_envs.registry import Library

STRIDE = 16
EPISODES = 16


class Marks:
    """Marks by episode and boundary."""

    def __init__(self, episodes: int = EPISODES) -> None:
        self._limit = episodes
        self._shelves: OrderedDict[str, dict[int, Mark]] = OrderedDict()

    def at(self, identity: str, library: Library, recording: pb.Recording, boundary: int) -> Mark:
        """The mark of a boundary. `identity` names the episode; a running one may have grown since the last call."""
        if boundary > len(recording.choices):
            raise UnknownBoundary(boundary, len(recording.choices))
        shelf = self._shelf(identity)
        start = max((known for known in shelf if known <= boundary), default=None)
        if start == boundary:
            return shelf[boundary]
        if start is None:
            episode, start = begin(library, recording), 0
        else:
            episode = Episode.resume(library, shelf[start], pb.DETAIL_DECISIONS)
        first = (start // STRIDE + 1) * STRIDE
        for stop in (*range(first, boundary, STRIDE), boundary):
            reexecute(episode, recording, stop)
            shelf[stop] = episode.mark()
        return shelf[boundary]

    def forget(self, identity: str) -> None:
        """Drops an episode's marks."""
        self._shelves.pop(identity, None)

    def _shelf(self, identity: str) -> dict[int, Mark]:
        shelf = self._shelves.setdefault(identity, {})
        self._shelves.move_to_end(identity)
        while len(self._shelves) > self._limit:
            self._shelves.popitem(last=False)
        return shelf
