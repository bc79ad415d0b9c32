"""A crowd on a map: everybody goes to uniformly drawn targets for ever, under the engine rules that games have.

The stand-in engine knows three rules: joint moves (somebody may follow into a cell that is left in the same step),
sequential moves in a random order (following fails if the one ahead has not moved yet), and sloppy (a tenth of the
moves is lost). It raises where a plan lets two agents share or swap cells.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from potluck_optionlib.planners import ACT, FAR, Detour, Grid, Motion, Walker, Wish, plan

WAIT = 3

MAPS = {
    "corridor": """
        ##############
        #............#
        ####.#####.###
        ##############""",
    "dead ends": """
        ###########
        #.#.#.#.#.#
        #.........#
        #.#.#.#.#.#
        ###########""",
    "ring": """
        #########
        #.......#
        #.#####.#
        #.......#
        #########""",
    "two rooms": """
        ###########
        #....#....#
        #.........#
        #....#....#
        ###########""",
    "kitchen": """
        #######
        #.....#
        #.###.#
        #.###.#
        #.....#
        #######""",
    "orchard": """
        ####################
        #..................#
        #.##.####.###.####.#
        #..................#
        ####.##########.####
        #..................#
        ####################""",
}


def floor(name: str) -> list[tuple[int, int]]:
    """The floor of a map."""
    rows = MAPS[name].split()
    return [(x, y) for y, row in enumerate(rows) for x, tile in enumerate(row) if tile == "."]


@dataclass
class Errand:
    """An option under way."""

    target: int
    adjacent: bool
    start: int
    rank: tuple[int, int]
    grants: int = 0


@dataclass
class Crowd:
    """n agents on a map."""

    grid: Grid
    agents: int
    rng: random.Random
    engine: str = "joint"
    steps: int = 0
    detour: Detour | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    timeout: int = 40
    longest_stand: int = 0
    """Most steps in a row that an agent on its way neither moved nor turned."""

    @classmethod
    def on(cls, map_name: str, motion: Motion, agents: int, seed: int, engine: str = "joint") -> Crowd:
        """A crowd in random poses."""
        grid, rng = Grid(floor(map_name), motion), random.Random(seed)
        crowd = cls(grid, agents, rng, engine)
        cells = rng.sample(range(len(grid.cells)), agents)
        crowd.poses = [cell * len(grid.facings) + rng.randrange(len(grid.facings)) for cell in cells]
        table = grid.field().beside.distance
        crowd.timeout = max(40, 3 * int(table[table < FAR].max()))
        crowd.errands = [crowd.draw(agent) for agent in range(agents)]
        crowd.stood = [0] * agents
        return crowd

    def draw(self, agent: int) -> Errand:
        """A new option: to a uniform target that can be reached, or waiting."""
        field_, rank = self.grid.field(), (self.steps, self.rng.randrange(1000))
        if self.rng.random() < 0.1:
            return Errand(-1, True, self.steps, rank)
        while True:
            target, adjacent = self.rng.randrange(len(self.grid.targets)), self.rng.random() < 0.5
            if field_.table(adjacent).row(target)[self.poses[agent]] < FAR:
                return Errand(target, adjacent, self.steps, rank)

    def step(self) -> None:
        """Plans, plays and ends options."""
        walkers = [self._walker(agent) for agent in range(self.agents)]
        joint = plan(self.grid, walkers, (), self.detour)
        assert joint.hopeless < 0, "everybody can get everywhere on these maps"
        self.detour = joint.detour
        before = list(self.poses)
        self._play(joint.ways)
        self.steps += 1
        for agent, (walker, way) in enumerate(zip(walkers, joint.ways, strict=True)):
            errand = self.errands[agent]
            errand.grants = walker.grants
            still = self.poses[agent] == before[agent] and walker.wish is Wish.GO
            self.stood[agent] = self.stood[agent] + 1 if still else 0
            self.longest_stand = max(self.longest_stand, self.stood[agent])
            age = self.steps - errand.start
            if way == ACT or (errand.target < 0 and age >= WAIT):
                self._finish(agent, "done")
            elif age >= self.timeout:
                self._finish(agent, "timeout")

    def _walker(self, agent: int) -> Walker:
        errand, pose = self.errands[agent], self.poses[agent]
        if errand.target < 0:
            return Walker(Wish.HOLD, pose, rank=errand.rank)
        there = self.grid.field().table(errand.adjacent).row(errand.target)[pose] == 0
        wish = Wish.ACT if there else Wish.GO
        return Walker(wish, pose, errand.target, errand.adjacent, errand.rank, errand.grants)

    def _finish(self, agent: int, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self.errands[agent] = self.draw(agent)
        self.stood[agent] = 0

    def _play(self, ways: tuple[int, ...]) -> None:
        size, successors = len(self.grid.facings), self.grid.field().successors
        after = [pose if way < 0 else int(successors[way, pose]) for pose, way in zip(self.poses, ways, strict=True)]
        cells, next_cells = [p // size for p in self.poses], [p // size for p in after]
        assert len(set(next_cells)) == self.agents, "two agents in one cell"
        for one in range(self.agents):
            for other in range(one):
                swap = next_cells[one] == cells[other] and next_cells[other] == cells[one]
                assert not swap, "two agents swap"
        order = list(range(self.agents))
        if self.engine != "joint":
            self.rng.shuffle(order)
        for agent in order:
            lost = self.engine == "sloppy" and self.rng.random() < 0.1
            others = {p // size for i, p in enumerate(self.poses) if i != agent}
            if not lost and (self.engine == "joint" or next_cells[agent] not in others):
                self.poses[agent] = after[agent]
