"""What the checks share: how much to play, how a broken promise is told, and a player with seeded choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from potluck.common.v1.common_pb2 import Item
from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import from_status
from potluck_envs.local import Table
from potluck_envs.registry import Library

Chooser = Callable[[random.Random, Sequence[Item]], Item]


class Broken(AssertionError):
    """A promise that the game does not keep."""


@dataclass(frozen=True)
class Plan:
    """How much to play."""

    episodes: int = 3
    horizon: int = 0
    """0 = the game's default."""
    first_seed: int = 0

    @property
    def seeds(self) -> range:
        """One per episode."""
        return range(self.first_seed, self.first_seed + self.episodes)


@dataclass
class Played:
    """A finished episode as its player saw it."""

    menus: list[pb.Menus] = field(default_factory=list)
    finished: pb.Finished = field(default_factory=pb.Finished)

    @property
    def recording(self) -> pb.Recording:
        """The episode's recording."""
        return self.finished.recording

    @property
    def digest(self) -> str:
        """The trajectory's digest."""
        return self.finished.recording.digest

    @property
    def steps(self) -> list[pb.StepRecord]:
        """Every step record."""
        found = [step for menus in self.menus for step in menus.progress.steps]
        return found + list(self.finished.progress.steps)

    @property
    def options(self) -> list[pb.OptionRecord]:
        """Every option record."""
        found = [option for menus in self.menus for option in menus.progress.options]
        return found + list(self.finished.progress.options)


def any_item(rng: random.Random, items: Sequence[Item]) -> Item:
    """A random place of the menu."""
    return items[rng.randrange(len(items))]


def any_instance(rng: random.Random, items: Sequence[Item]) -> Item:
    """A random instance, whatever its place: menus that differ in order only are answered alike."""
    return sorted(items, key=lambda item: (item.option, item.target))[rng.randrange(len(items))]


class Player:
    """Plays one game with seeded choices."""

    def __init__(self, game: str, plan: Plan) -> None:
        self.game = game
        self.plan = plan
        self.table = Table()
        self.library: Library = self.table.registry.library(game)
        self.horizon = plan.horizon or self.library.info.default_horizon
        self._count = 0

    def new_id(self) -> str:
        """An episode id that is free."""
        self._count += 1
        return f"episode {self._count}"

    def start(self, seed: int, horizon: int = 0, interface: int = pb.INTERFACE_MENU) -> pb.Update:
        """Begins an episode with all steps in its records."""
        start = pb.Start(
            game=self.game,
            seed=seed,
            horizon=horizon or self.horizon,
            detail=pb.DETAIL_STEPS,
            interface=pb.Interface.ValueType(interface),
        )
        return self.ok(pb.Command(episode_id=self.new_id(), start=start))

    def fork(self, source: pb.Recording | str, boundary: int, reseed: int | None = None) -> pb.Update:
        """Forks a recording or a running episode."""
        fork = pb.Fork(boundary=boundary, reseed=reseed, detail=pb.DETAIL_STEPS)
        if isinstance(source, str):
            fork.episode_id = source
        else:
            fork.recording.CopyFrom(source)
        return self.ok(pb.Command(episode_id=self.new_id(), fork=fork))

    def ok(self, command: pb.Command) -> pb.Update:
        """Sends a command that must succeed."""
        update = self.table.send(command)
        outcome = update.WhichOneof("outcome")
        if outcome in ("failed", "refused"):
            status = update.failed.status if outcome == "failed" else update.refused.status
            raise Broken(f"{command.WhichOneof('action')} was answered with: {from_status(status).message}")
        return update

    def reason(self, command: pb.Command) -> str:
        """Sends a command that must be refused and returns the reason."""
        update = self.table.send(command)
        if update.WhichOneof("outcome") != "refused":
            return str(update.WhichOneof("outcome"))
        return from_status(update.refused.status).reason

    def choose(self, update: pb.Update, rng: random.Random, chooser: Chooser = any_item) -> pb.Command:
        """The answer to menus."""
        choices = [pb.Choice(agent=p.agent, letter=chooser(rng, p.prompt.items).letter) for p in update.menus.decisions]
        choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
        return pb.Command(episode_id=update.episode_id, choose=choose)

    def finish(
        self, update: pb.Update, seed: int, chooser: Chooser = any_item, choices: Sequence[pb.Choose] = ()
    ) -> Played:
        """Plays to the end: the given choices first, by their boundaries, then seeded ones."""
        rng, played = random.Random(seed), Played()
        given = {choose.boundary: choose for choose in choices}
        while update.HasField("menus"):
            played.menus.append(update.menus)
            command = self.choose(update, rng, chooser)
            if update.menus.boundary in given:
                command.choose.CopyFrom(given[update.menus.boundary])
            update = self.ok(command)
        played.finished = update.finished
        return played

    def play(self, seed: int, chooser: Chooser = any_item, horizon: int = 0) -> Played:
        """A whole episode whose choices are seeded with its seed."""
        return self.finish(self.start(seed, horizon), seed, chooser)
