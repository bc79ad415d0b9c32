"""A plain client of the env server's Play stream for tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import grpc

from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1 import env_service_pb2_grpc as grpc_stubs
from potluck.rpc.errors import from_status

PATIENCE = 300


class Stream:
    """One Play stream. `ask` sends commands and returns their updates by episode."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address)
        self.stub = grpc_stubs.EnvServiceStub(self.channel)
        self.call = self.stub.Play()
        self._numbers = iter(range(1 << 30))

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        await self.channel.close()

    async def ask(self, *commands: pb.Command) -> dict[str, pb.Update]:
        """Sends commands, one per episode, and waits for the answers."""
        await self.send(*commands)
        return {update.episode_id: update for update in await self.receive(len(commands))}

    async def send(self, *commands: pb.Command) -> None:
        """Sends commands; ids are filled in where they are missing."""
        for command in commands:
            command.request_id = command.request_id or f"request {next(self._numbers)}"
        await self.call.write(pb.PlayRequest(commands=commands))

    async def receive(self, count: int) -> list[pb.Update]:
        """The next updates."""
        updates: list[pb.Update] = []
        while len(updates) < count:
            response = await asyncio.wait_for(self.call.read(), PATIENCE)
            assert response is not grpc.aio.EOF, "the stream ended"
            updates += response.updates
        assert len(updates) == count
        return updates

    async def finish(self, updates: Iterable[pb.Update], letters: str = "random") -> dict[str, pb.Update]:
        """Plays episodes to their ends in lockstep; choices are seeded by the episode's id."""
        live = {update.episode_id: update for update in updates}
        rngs = {episode: random.Random(episode) for episode in live}
        done = {}
        while live:
            for episode in [e for e, update in live.items() if not update.HasField("menus")]:
                done[episode] = live.pop(episode)
            if live:
                live = await self.ask(*(choose(u, rngs[e] if letters == "random" else None) for e, u in live.items()))
        return done


def start(episode: str, game: str = "relay/two_rooms", seed: int = 1, **fields: object) -> pb.Command:
    """A start command."""
    return pb.Command(episode_id=episode, start=pb.Start(game=game, seed=seed, **fields))  # type: ignore[arg-type]


def fork(episode: str, boundary: int, source: str | pb.Recording, **fields: object) -> pb.Command:
    """A fork command."""
    command = pb.Command(episode_id=episode, fork=pb.Fork(boundary=boundary, **fields))  # type: ignore[arg-type]
    if isinstance(source, str):
        command.fork.episode_id = source
    else:
        command.fork.recording.CopyFrom(source)
    return command


def choose(update: pb.Update, rng: random.Random | None = None) -> pb.Command:
    """An answer to menus: the first letters, or random ones."""
    choices = [
        pb.Choice(agent=p.agent, letter=(rng.choice(p.prompt.items) if rng else p.prompt.items[0]).letter)
        for p in update.menus.decisions
    ]
    return pb.Command(episode_id=update.episode_id, choose=pb.Choose(boundary=update.menus.boundary, choices=choices))


def reason(update: pb.Update) -> str:
    """Of a refusal or a failure."""
    return from_status(status(update)).reason


def message(update: pb.Update) -> str:
    """Of a refusal or a failure."""
    return from_status(status(update)).message


def status(update: pb.Update):
    """Of a refusal or a failure."""
    return update.failed.status if update.HasField("failed") else update.refused.status
