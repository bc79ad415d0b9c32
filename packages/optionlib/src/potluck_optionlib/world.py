"""What an author writes about a game's engine, so that contracts with executors make it a complete game.

A `World` subclass says where agents are, what a joint step does, and which facts there are; everything else (planning,
time-outs, records, native interface, forks) is `ContractGame`'s. Methods with a body here are defaults that suit a
game whose whole state is what `copy.deepcopy` of `self.state` copies.

Positions are (x, y) with y downwards; a target's text is "(x,y)". Facts are short strings: those of the acting agent
(`own`) and those of a target (`about`) have different names. Effects compare them before and after the last primitive;
read sets name the few that guards may look at. Never tell a partner's passing state as a fact.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from potluck_optionlib.game import Event, Instance, ItemView, Observation, Scene, Sprite
from potluck_optionlib.planners import Motion, Pose

Cell = tuple[int, int]


class Outcome(NamedTuple):
    """What a joint step came to."""

    rewards: tuple[float, ...]
    """Per agent; the team's reward is their sum."""
    events: tuple[Event, ...] = ()


class Look(NamedTuple):
    """How an option instance reads to an agent."""

    text: str
    key: str = ""
    """What tables tell options apart by; the option's name if empty."""
    greedy: float = 0.0
    """How good it looks to a scripted player."""


@lru_cache(maxsize=1 << 14)
def seen(stem: str, name: str, look: Look, steps: int) -> ItemView:
    """An option's instance in a menu, by the option's stem and name, with the steps to it (-1: no way)."""
    return ItemView(stem, look.text, steps, look.key or name, look.greedy)


class World(Protocol):
    """One running engine."""

    name: str
    """Full name, "<entry point>/<game>"."""
    agents: int
    horizon: int
    engine: str
    dynamics: str
    reward_unit: str
    motion: Motion
    """How primitives move an agent, see potluck_optionlib.planners."""
    primitives: tuple[str, ...]
    """Every primitive of the engine, in a fixed order."""
    state: Any
    """All that changes, its random generator included."""

    def floor(self) -> Collection[Cell]:
        """Cells that can ever be stood on, doors included. Never changes."""
        ...

    def reset(self, seed: int) -> None:
        """A new episode: sets `state`."""
        ...

    def reseed(self, seed: int) -> None:
        """Replaces the randomness of everything that follows, if there is any."""

    def step(self, primitives: Sequence[str]) -> Outcome:
        """Plays one primitive per agent. Planned moves never swap or share cells; an engine may still refuse one."""
        ...

    def pose(self, agent: int) -> Pose:
        """Where an agent stands and looks; while it is away, anywhere."""
        ...

    def away(self, agent: int) -> bool:
        """Is an agent off the map for now? Its option fails with Away, and it can only wait."""
        return False

    def standing(self) -> Sequence[Pose | None]:
        """`pose` of every agent, None while it is away: for worlds that are quicker at all than at each."""
        return [None if self.away(agent) else self.pose(agent) for agent in range(self.agents)]

    def over(self) -> bool:
        """Has the engine ended the episode? Nothing may be stepped then."""
        return False

    def held(self, agent: int) -> str:
        """What an agent carries, or ""."""
        return ""

    def closed(self) -> Collection[Cell]:
        """Cells of the floor that nobody can enter now, such as shut doors."""
        return ()

    def own(self, agent: int) -> Mapping[str, str]:
        """Facts of the agent's own, beside `held` and `there` (on the target: "yes" or "no"), which are told anyway."""
        return {}

    def about(self, instance: Instance) -> Mapping[str, str]:
        """Facts of the instance's target: the same names for all targets of an option."""
        return {}

    def state_bytes(self) -> bytes:
        """Canonical bytes of the state, for trajectory digests."""
        ...

    def rules(self, agent: int) -> str:
        """The fixed prompt part: game, map, goal."""
        ...

    def observe(self, agent: int) -> Observation:
        """The present state in short lines, with a coarse key for tables."""
        ...

    def look(self, agent: int, instance: Instance) -> Look:
        """How an option instance reads now."""
        return Look(f"{instance.option.replace('_', ' ')} {instance.target}".rstrip())

    def views(self, agent: int, stem: str, instances: Sequence[Instance], steps: Sequence[int]) -> Sequence[ItemView]:
        """`look` at instances of one option, so many steps away; for worlds that are quicker at many than at each."""
        look = self.look
        return [seen(stem, one.option, look(agent, one), steps[place]) for place, one in enumerate(instances)]

    def scene(self) -> Scene:
        """The fixed picture."""
        ...

    def sprites(self) -> Sequence[Sprite]:
        """Things to draw beside the agents, who are drawn anyway."""
        return ()

    def snapshot(self) -> Any:
        """All that changes, as a value of its own."""
        return copy.deepcopy(self.state)

    def restore(self, snapshot: Any) -> None:
        """Goes back to a snapshot, which stays good."""
        self.state = copy.deepcopy(snapshot)


def cell_of(target: str) -> Cell:
    """The cell that a target's text "(x,y)" names. Raises ValueError."""
    x, y = target.removeprefix("(").removesuffix(")").split(",")
    return int(x), int(y)


def text_of(cell: Cell) -> str:
    """The text of a target in a cell."""
    return f"({cell[0]},{cell[1]})"
