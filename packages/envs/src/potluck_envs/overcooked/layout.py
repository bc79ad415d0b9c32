"""The fixed part of a kitchen: cells, targets, who reaches what, recipes, and the map as planners see it.

A pose is `4 * cell + facing` (N, S, E, W), the planners' own index. Everything is computed once per layout and process
and shared by all games on it; the expensive tables are made when first asked for.
Recipe times and values are read off the engine here, under this layout's own configuration, because the engine keeps
them in class attributes that the next layout overwrites.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement
from typing import Any

from potluck_envs.overcooked.shim import OvercookedGridworld, Recipe, read_layout_dict
from potluck_optionlib.planners import COMPASS, FAR, Grid, Pairs

Cell = tuple[int, int]
STAY, INTERACT = 4, 5
ACTIONS_OF_WAYS = (0, 1, 2, 3, INTERACT, STAY)
"""Engine actions by the planners' ways: N, S, E, W, and from the end STAY and ACT, which are negative."""
FACINGS = ("N", "S", "E", "W")
DIRECTIONS: tuple[Cell, ...] = ((0, -1), (0, 1), (1, 0), (-1, 0))
FLOOR, COUNTER, ONIONS, TOMATOES, DISHES, POT, WINDOW = " ", "X", "O", "T", "D", "P", "S"
TILES = {
    FLOOR: "floor",
    COUNTER: "counter",
    ONIONS: "onions",
    TOMATOES: "tomatoes",
    DISHES: "dishes",
    POT: "pot",
    WINDOW: "window",
}


@dataclass(frozen=True)
class Target:
    """A cell that can be interacted with."""

    index: int
    x: int
    y: int
    kind: str

    @cached_property
    def cell(self) -> Cell:
        """Column, row."""
        return self.x, self.y

    @cached_property
    def text(self) -> str:
        """Canonical text, "(x,y)"."""
        return f"({self.x},{self.y})"


class Layout:
    """One kitchen."""

    def __init__(self, name: str, mdp: Any = None) -> None:
        self.name = name
        self.mdp: Any = mdp if mdp is not None else OvercookedGridworld.from_layout_name(name)
        self.recipe_config: dict[str, Any] = self.mdp.recipe_config
        self.rows = tuple("".join(row) for row in self.mdp.terrain_mtx)
        self.height, self.width = len(self.rows), len(self.rows[0])
        self.starts: tuple[Cell, ...] = tuple(tuple(p) for p in self.mdp.start_player_positions)
        floor = [(x, y) for y, row in enumerate(self.rows) for x, tile in enumerate(row) if tile == FLOOR]
        self.targets = self._targets(frozenset(floor))
        self.grid = Grid(floor, COMPASS, [target.cell for target in self.targets])
        self.pairs = Pairs(self.grid)
        self.cells, self.cell_index = self.grid.cells, self.grid.cell_index
        self.component = self.pairs.field.rooms
        self.spots = tuple(self.grid.target_index[target.cell] for target in self.targets)
        """[target]: its index in the grid."""
        self.by_text: Mapping[str, Target] = {target.text: target for target in self.targets}
        self._kinds = {kind: tuple(target for target in self.targets if target.kind == kind) for kind in TILES}
        self.values, self.times = self._recipes()

    def pose(self, cell: Cell, facing: int) -> int:
        """Index of a pose."""
        return 4 * self.cell_index[cell] + facing

    def of_kind(self, kind: str) -> tuple[Target, ...]:
        """Targets of one tile kind, in map order."""
        return self._kinds[kind]

    def reaches(self, seat: int, target: Target) -> bool:
        """Can the seat ever interact with the target?"""
        return target.index in self._reach[seat]

    def shared(self, target: Target) -> bool:
        """Can every seat interact with the target?"""
        return all(target.index in reach for reach in self._reach)

    @cached_property
    def alone(self) -> tuple[Sequence[int], ...]:
        """[target][pose]: `solo` without a block, for every target."""
        return tuple(self.solo(target.index) for target in self.targets)

    @cached_property
    def _reach(self) -> tuple[frozenset[int], ...]:
        return tuple(
            frozenset(t.index for t in self.targets if self.solo(t.index)[self.pose(start, 0)] < FAR)
            for start in self.starts
        )

    @cached_property
    def same_room(self) -> bool:
        """Can the first two seats ever get into each other's way?"""
        first, second = (self.component[self.cell_index[start]] for start in self.starts[:2])
        return first == second

    def solo(self, target: int, blocked: int = -1) -> Sequence[int]:
        """Per pose, the least actions to face the target, past a partner that never moves in the cell `blocked`."""
        return self.pairs.past(blocked).beside.row(self.spots[target])

    def joint(self, target: int) -> list[list[int]]:
        """[pose][partner cell]: the least steps to face the target when the partner makes way as needed."""
        return self.pairs.distance(self.spots[target])

    def ordered(self, contents: tuple[str, ...]) -> bool:
        """Would a soup of these (sorted) ingredients be paid for?"""
        return self.values.get(contents, 0) > 0

    def goal(self, contents: tuple[str, ...]) -> tuple[str, ...] | None:
        """The best-paid recipe that these (sorted) ingredients can still become here, or None."""
        return self._goals.get(contents)

    @cached_property
    def _goals(self) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        supply = {"onion" for _ in self.of_kind(ONIONS)} | {"tomato" for _ in self.of_kind(TOMATOES)}
        goals = {}
        for contents in [(), *self.values]:
            fits = [
                (self.values[recipe], recipe)
                for recipe in self.values
                if self.ordered(recipe)
                and missing(contents, recipe) is not None
                and set(missing(contents, recipe) or ()) <= supply
            ]
            if fits:
                goals[contents] = max(fits)[1]
        return goals

    def _targets(self, floor: Collection[Cell]) -> tuple[Target, ...]:
        spots = [(x, y, tile) for y, row in enumerate(self.rows) for x, tile in enumerate(row)]
        wanted = [
            spot
            for spot in spots
            if spot[2] != FLOOR and (spot[2] != COUNTER or any(n in floor for n in _around(spot[0], spot[1])))
        ]
        return tuple(Target(i, x, y, kind) for i, (x, y, kind) in enumerate(wanted))

    def _recipes(self) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], int]]:
        Recipe.configure(self.recipe_config)
        state = self.mdp.get_standard_start_state()
        values, times = {}, {}
        for size in range(1, Recipe.MAX_NUM_INGREDIENTS + 1):
            for contents in combinations_with_replacement(("onion", "tomato"), size):
                recipe = Recipe(list(contents))
                values[contents] = float(self.mdp.get_recipe_value(state, recipe))
                times[contents] = int(recipe.time)
        return values, times


def missing(contents: tuple[str, ...], recipe: tuple[str, ...]) -> list[str] | None:
    """Ingredients to add to get the recipe, or None where it cannot be got."""
    rest = list(recipe)
    for ingredient in contents:
        if ingredient not in rest:
            return None
        rest.remove(ingredient)
    return rest


def _around(x: int, y: int) -> tuple[Cell, ...]:
    return tuple((x + dx, y + dy) for dx, dy in DIRECTIONS)


@cache
def load(name: str) -> Layout:
    """The layout of this name, or its probe kitchen for "<name>/probe", built once per process."""
    name, _, variant = name.partition("/")
    if variant == "probe":
        return Layout(f"{name}/probe", _probe(name))
    return Layout(name)


def _probe(name: str) -> Any:
    """A small open kitchen with all stations under the orders of a layout.

    Where a kitchen is divided, one chef alone never gets a soup started, so solo records of the layout itself say
    nothing about `start_cooking`; those of the probe do.
    """
    params = read_layout_dict(name)
    tomatoes = "T" in params["grid"]
    for key in ("grid", "start_state", "rew_shaping_params"):
        params.pop(key, None)
    grid = ["XXPXX", "O  2T" if tomatoes else "O  2O", "X1  X", "XDXSX"]
    return OvercookedGridworld.from_grid(grid, {**params, "layout_name": f"{name}_probe", "rew_shaping_params": None})
