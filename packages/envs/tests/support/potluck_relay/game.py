"""Relay: agent_0 carries parcels from the shelf to the hatch, agent_1 from the hatch to the window.

    0 1 2 3 4 5 6
    S . . H . . W      S shelf, H hatch, W window; two rows, so each target exists twice.
    S . . H . . W      Floors are slippery: a move fails with probability 0.1.

A complete game of about 200 lines, and the example of how to write one.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from potluck_optionlib.game import (
    NOOP,
    Activity,
    AgentStep,
    Ended,
    Event,
    GameSpec,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)

WIDTH, HEIGHT, SLIP, WAIT_STEPS, TIMEOUT = 7, 2, 0.1, 2, 30
COLUMN = {"fetch": 0, "put": 3, "take": 3, "hand_in": 6}
OPTIONS = {0: ("fetch", "put"), 1: ("take", "hand_in")}
TEXT = {
    "fetch": "fetch a parcel at",
    "put": "put the parcel into the hatch at",
    "take": "take the parcel out of",
    "hand_in": "hand the parcel in at",
}
DIRECTIONS = {"N": (0, -1), "S": (0, 1), "E": (1, 0), "W": (-1, 0)}
PRIMITIVES = (*DIRECTIONS, "stay", "interact")
SPEC = GameSpec("relay/two_rooms", 2, 60, "relay 1", "slippery", "parcels", ("fetch", "put", "take", "hand_in", "wait"))


@dataclass
class Carrier:
    """One agent."""

    x: int
    y: int
    facing: str = "S"
    held: str = ""
    option: Instance | None = None
    start: int = 0
    features: Mapping[str, str] = field(default_factory=dict)


@dataclass
class World:
    """Everything that changes."""

    rng: random.Random
    steps: int = 0
    parcels: int = 0
    agents: list[Carrier] = field(default_factory=lambda: [Carrier(1, 0), Carrier(5, 1)])
    hatch: dict[int, str] = field(default_factory=dict)
    """Parcel by row."""


class Relay:
    """The game; see `potluck_optionlib.game.SymbolicGame`."""

    spec = SPEC
    contracts_digest = hashlib.sha256(json.dumps([SPEC.options, WIDTH, HEIGHT, SLIP]).encode()).hexdigest()

    def __init__(self) -> None:
        self.world = World(random.Random(0))

    @property
    def steps(self) -> int:
        return self.world.steps

    def reset(self, seed: int) -> None:
        self.world = World(random.Random(seed))

    def reseed(self, seed: int) -> None:
        self.world.rng = random.Random(f"reseed {seed}")

    def idle(self) -> tuple[int, ...]:
        return tuple(i for i, agent in enumerate(self.world.agents) if agent.option is None)

    def candidates(self, agent: int) -> Sequence[Instance]:
        targets = [Instance(name, f"({COLUMN[name]},{row})") for name in OPTIONS[agent] for row in range(HEIGHT)]
        return [*targets, Instance("wait")]

    def primitives(self, agent: int) -> Sequence[Instance]:
        return [Instance("primitive", name) for name in PRIMITIVES]

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        return {"held": self.world.agents[agent].held and "parcel", "hatch": str(sorted(self.world.hatch))}

    def explicit(self, agent: int, instance: Instance) -> str | None:
        held, row = self.world.agents[agent].held, _row(instance)
        if instance.option in ("fetch", "take") and held:
            return "HandsFull"
        if instance.option in ("put", "hand_in") and not held:
            return "HandsEmpty"
        if instance.option == "put" and row in self.world.hatch:
            return "HatchFull"
        return "HatchEmpty" if instance.option == "take" and row not in self.world.hatch else None

    def begin(self, agent: int, instance: Instance) -> None:
        me = self.world.agents[agent]
        known = instance == NOOP or instance in self.candidates(agent) or instance in self.primitives(agent)
        if not known or me.option not in (None, NOOP):
            raise ValueError(f"agent {agent} cannot begin {instance}")
        me.option, me.start, me.features = instance, self.steps, self.features(agent, instance)

    def step(self) -> Step:
        if self.idle():
            raise ValueError(f"agents {self.idle()} are idle")
        events: list[Event] = []
        moves = [self._act(i, events) for i in range(2)]
        self.world.steps += 1
        rewards = tuple(sum(e.reward for e in events if e.agent == i) for i in range(2))
        ended = [self._end(i, outcome) for i, (_, _, outcome) in enumerate(moves) if outcome]
        agents = [
            AgentStep(a.x, a.y, a.facing, move[0], a.held and "parcel", move[1])
            for a, move in zip(self.world.agents, moves, strict=True)
        ]
        return Step(sum(rewards), rewards, tuple(agents), tuple(events), tuple(ended))

    def _end(self, i: int, outcome: str) -> Ended:
        me = self.world.agents[i]
        assert me.option is not None
        ended = Ended(i, me.option, outcome, me.start, self.steps - me.start, me.features)
        me.option = None
        return ended

    def _act(self, i: int, events: list[Event]) -> tuple[str, Activity, str]:
        """-> primitive, activity, outcome (empty while the option goes on)."""
        me = self.world.agents[i]
        assert me.option is not None
        age = self.steps - me.start + 1
        if me.option == NOOP:
            return "stay", Activity.NOOP, ""
        if me.option.option == "wait":
            return "stay", Activity.WAIT, "success" if age >= WAIT_STEPS else ""
        if me.option.option == "primitive":
            return me.option.target, self._primitive(i, me.option.target, events), "success"
        name = self._towards(me, me.option)
        activity = self._primitive(i, name, events)
        if name == "interact":
            return name, activity, "success" if activity is Activity.INTERACT else "effect_fail"
        return name, activity, "timeout" if age >= TIMEOUT else ""

    def _towards(self, me: Carrier, option: Instance) -> str:
        column, row = COLUMN[option.option], _row(option)
        if me.y != row:
            return "S" if me.y < row else "N"
        facing = "E" if column > me.x else "W"
        return "interact" if abs(column - me.x) == 1 and me.facing == facing else facing

    def _primitive(self, i: int, name: str, events: list[Event]) -> Activity:
        me = self.world.agents[i]
        if name == "stay":
            return Activity.WAIT
        if name == "interact":
            return Activity.INTERACT if self._interact(i, events) else Activity.WAIT
        me.facing = name
        x, y = me.x + DIRECTIONS[name][0], me.y + DIRECTIONS[name][1]
        slipped = self.world.rng.random() < SLIP
        if not slipped and 0 <= y < HEIGHT and x in ((1, 2), (4, 5))[i]:
            me.x, me.y = x, y
        return Activity.MOVE

    def _interact(self, i: int, events: list[Event]) -> bool:
        me, hatch = self.world.agents[i], self.world.hatch
        x = me.x + DIRECTIONS[me.facing][0]
        if i == 0 and x == 0 and not me.held:
            self.world.parcels += 1
            me.held = f"parcel#{self.world.parcels}"
            events.append(Event("pickup", i, me.held, "dispenser", x, me.y))
        elif i == 0 and x == 3 and me.held and me.y not in hatch:
            hatch[me.y] = me.held
            events.append(Event("drop", i, me.held, "counter", x, me.y))
            me.held = ""
        elif i == 1 and x == 3 and not me.held and me.y in hatch:
            me.held = hatch.pop(me.y)
            events.append(Event("pickup", i, me.held, "counter", x, me.y, from_agent=0))
        elif i == 1 and x == 6 and me.held:
            events.append(Event("deliver", i, me.held, "window", x, me.y, from_agent=0, reward=1.0))
            me.held = ""
        else:
            return False
        return True

    def snapshot(self) -> object:
        return copy.deepcopy(self.world)

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, World)
        self.world = copy.deepcopy(snapshot)

    def state_bytes(self) -> bytes:
        agents = [(a.x, a.y, a.facing, a.held) for a in self.world.agents]
        return json.dumps([self.steps, agents, sorted(self.world.hatch.items())]).encode()

    def rules(self, agent: int) -> str:
        role = ("You carry parcels from the shelf to the hatch.", "You carry parcels from the hatch to the window.")[
            agent
        ]
        return f"Two agents in two rooms pass parcels through a hatch. {role} Each parcel at the window counts 1."

    def observe(self, agent: int) -> Observation:
        held = "parcel" if self.world.agents[agent].held else "nothing"
        return Observation(f"hold {held}\nhatch {len(self.world.hatch)}", f"held={held} hatch={len(self.world.hatch)}")

    def view(self, agent: int, instance: Instance) -> ItemView:
        if instance.option == "wait":
            return ItemView("wait", "wait a moment", 0, "wait", -1.0)
        me = self.world.agents[agent]
        steps = abs(me.y - _row(instance)) + abs(me.x - COLUMN[instance.option])
        return ItemView(
            instance.option, f"{TEXT[instance.option]} {instance.target}", steps, instance.option, 10.0 - steps
        )

    def scene(self) -> Scene:
        row = ("shelf", "floor", "floor", "hatch", "floor", "floor", "window")
        return Scene(WIDTH, HEIGHT, row * HEIGHT)

    def sprites(self) -> Sequence[Sprite]:
        chefs = [Sprite("carrier", a.x, a.y, a.facing, i, a.held) for i, a in enumerate(self.world.agents)]
        return [*chefs, *(Sprite("parcel", 3, y) for y in self.world.hatch)]


def _row(instance: Instance) -> int:
    return int(instance.target[-2]) if instance.target.startswith("(") else 0
