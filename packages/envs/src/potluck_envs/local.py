"""Episodes in this process, without server or workers: what checks, tests and notebooks play with.

    table = Table()
    update = table.send(pb.Command(episode_id="a", start=pb.Start(game="overcooked/cramped_room", seed=1)))

The same sessions and hosts as behind the server, so everything but the wire is the same, refusals included.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.episode import Episode
from potluck_envs.host import Host, Job
from potluck_envs.registry import Registry
from potluck_envs.sessions import Session


class LocalHome:
    """A host in this process."""

    index = 0

    def __init__(self, host: Host) -> None:
        self._host = host
        self._owners: dict[int, Session] = {}
        self._keys = itertools.count(1)

    def place(self, owner: Session, index: int | None = None) -> tuple[int, LocalHome]:
        """A key for a new episode."""
        key = next(self._keys)
        self._owners[key] = owner
        return key, self

    def run(self, jobs: Sequence[Job]) -> None:
        """Carries out jobs at once."""
        for job in jobs:
            self._owners[job.key].results([self._host.run(job)])

    def release(self, key: int) -> None:
        """Forgets who owned an episode that has ended."""
        self._owners.pop(key, None)

    def drop(self, keys: Sequence[int]) -> None:
        """Forgets running episodes."""
        for key in keys:
            self._owners.pop(key, None)
            self._host.drop(key)


class Table:
    """A Play stream without the stream."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.registry = registry or Registry()
        self.host = Host(self.registry)
        self._session = Session(LocalHome(self.host))

    def send_all(self, commands: Sequence[pb.Command]) -> list[pb.Update]:
        """Carries out commands."""
        self._session.submit(pb.PlayRequest(commands=commands))
        updates: list[pb.Update] = []
        while response := self._session.take():
            updates += pb.PlayResponse.FromString(response).updates
        return updates

    def send(self, command: pb.Command) -> pb.Update:
        """Carries out one command."""
        [update] = self.send_all([command])
        return update

    def replay(self, recording: pb.Recording, frames: bool = False) -> pb.ReplayResponse:
        """Re-executes a recording. Raises EnvError."""
        return self.host.replay(pb.ReplayRequest(recording=recording, frames=frames))

    def episode(self, episode_id: str) -> Episode:
        """A running episode, to look at."""
        return self.host.episode(self._session.key(episode_id))
