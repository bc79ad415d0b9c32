"""The made-up game of the drafting prompt, as an installed plug-in: two keepers carry oil from a store to lamps.

`use` takes oil at a store with empty hands, pours it into a lamp that is not full, and lights a full lamp with empty
hands; anything else does nothing. A lit lamp burns down. One of the lamps is walled in: nearest to everybody, and out
of reach. There are no contracts here: they are what is drafted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from potluck_optionlib.contracts import waiting
from potluck_optionlib.game import Instance, Observation, Scene
from potluck_optionlib.planners import COMPASS, Pose
from potluck_optionlib.planners.motion import STEPS
from potluck_optionlib.provider import Games
from potluck_optionlib.world import Cell, Outcome, World, cell_of, text_of

ROWS = (
    "###########",
    "#.........#",
    "#.#####...#",
    "#.##L##...#",
    "#.#####L..#",
    "#.........#",
    "####O######",
)
FULL = 2
BURNS = 12
"""Steps after which a lit lamp has used up one measure."""


@dataclass
class Lamp:
    level: int = 0
    lit: int = 0
    """Steps until a measure is used up; 0 = dark."""


@dataclass
class State:
    poses: list[Pose] = field(default_factory=lambda: [Pose(3, 1, "S"), Pose(3, 5, "S")])
    oil: list[bool] = field(default_factory=lambda: [False, False])
    lamps: dict[Cell, Lamp] = field(default_factory=dict)


class Lighthouse(World):
    """What drafted contracts are written against: `stores` and `lamps` are the texts of all targets."""

    name = "lighthouse/small"
    agents = 2
    horizon = 200
    engine = "lighthouse 1"
    dynamics = "plain"
    reward_unit = "lights"
    motion = COMPASS
    primitives = ("N", "S", "E", "W", "stay", "use")
    state: State

    def __init__(self) -> None:
        self._lamps = [(x, y) for y, row in enumerate(ROWS) for x, tile in enumerate(row) if tile == "L"]
        self._stores = [(x, y) for y, row in enumerate(ROWS) for x, tile in enumerate(row) if tile == "O"]
        self.stores = [text_of(cell) for cell in self._stores]
        self.lamps = [text_of(cell) for cell in self._lamps]
        self.reset(0)

    def floor(self) -> Collection[Cell]:
        return {(x, y) for y, row in enumerate(ROWS) for x, tile in enumerate(row) if tile == "."}

    def reset(self, seed: int) -> None:
        self.state = State(lamps={cell: Lamp() for cell in self._lamps})

    def step(self, primitives: Sequence[str]) -> Outcome:
        rewards = [0.0] * self.agents
        taken = {pose[:2] for pose in self.state.poses}
        for agent, primitive in enumerate(primitives):
            x, y, facing = self.state.poses[agent]
            if primitive in STEPS:
                dx, dy = STEPS[primitive]
                free = ROWS[y + dy][x + dx] == "." and (x + dx, y + dy) not in taken
                self.state.poses[agent] = Pose(x + dx, y + dy, primitive) if free else Pose(x, y, primitive)
                taken = {pose[:2] for pose in self.state.poses}
            elif primitive == "use":
                rewards[agent] = self._use(agent, (x + STEPS[facing][0], y + STEPS[facing][1]))
        for lamp in self.state.lamps.values():
            if lamp.lit:
                lamp.lit -= 1
                if not lamp.lit:
                    lamp.level -= 1
                    lamp.lit = BURNS if lamp.level else 0
        return Outcome(tuple(rewards))

    def _use(self, agent: int, cell: Cell) -> float:
        lamp = self.state.lamps.get(cell)
        if cell in self._stores and not self.state.oil[agent]:
            self.state.oil[agent] = True
        elif lamp is not None and self.state.oil[agent] and lamp.level < FULL:
            self.state.oil[agent] = False
            lamp.level += 1
        elif lamp is not None and not self.state.oil[agent] and lamp.level == FULL and not lamp.lit:
            lamp.lit = BURNS
            return 1.0
        return 0.0

    def pose(self, agent: int) -> Pose:
        return self.state.poses[agent]

    def held(self, agent: int) -> str:
        return "oil" if self.state.oil[agent] else ""

    def about(self, instance: Instance) -> Mapping[str, str]:
        lamp = self.state.lamps.get(cell_of(instance.target))
        return {} if lamp is None else {"level": str(lamp.level), "lit": "yes" if lamp.lit else "no"}

    def state_bytes(self) -> bytes:
        return repr(self.state).encode()

    def rules(self, agent: int) -> str:
        return "Keep the lamps lit."

    def observe(self, agent: int) -> Observation:
        return Observation(f"hold {self.held(agent) or 'none'}", self.held(agent))

    def scene(self) -> Scene:
        return Scene(len(ROWS[0]), len(ROWS), tuple(tile for row in ROWS for tile in row))


class Provider(Games):
    """With a note for the model."""

    def draft_notes(self, name: str) -> str:
        return "`contracts(world)` gets a `Lighthouse`; contracts need executors."


provider = Provider({Lighthouse.name: Lighthouse}, lambda world: [waiting()])


class Closed:
    """A provider that knows its own contracts only."""

    def names(self) -> Sequence[str]:
        return ["closed/game"]

    def make(self, name: str) -> object:
        raise KeyError(name)

    def guards(self, name: str) -> str:
        return ""


closed = Closed()
