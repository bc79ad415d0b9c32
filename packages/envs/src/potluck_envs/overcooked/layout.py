"""The fixed part of a kitchen: cells, targets, who reaches what, recipes, and the planners' distance tables.

A pose is `4 * cell + facing` (N, S, E, W), so that a table row is a list index away. Everything is computed once per
layout and process and shared by all games on it; the expensive tables are made when first asked for.
Recipe times and values are read off the engine here, under this layout's own configuration, because the engine keeps
them in class attributes that the next layout overwrites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from potluck_envs.overcooked.shim import OvercookedGridworld, Recipe, read_layout_dict

Cell = tuple[int, int]
FAR = 999
STAY, INTERACT = 4, 5
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
        self.cells: tuple[Cell, ...] = tuple(
            (x, y) for y, row in enumerate(self.rows) for x, tile in enumerate(row) if tile == FLOOR
        )
        self.cell_index: Mapping[Cell, int] = {cell: i for i, cell in enumerate(self.cells)}
        self.component = self._components()
        self.targets = self._targets()
        self.by_text: Mapping[str, Target] = {target.text: target for target in self.targets}
        self._kinds = {kind: tuple(target for target in self.targets if target.kind == kind) for kind in TILES}
        self.values, self.times = self._recipes()
        self.moves = tuple(self._moves_from(pose) for pose in range(4 * len(self.cells)))
        self._into = self._predecessors()
        self._solo: dict[tuple[int, int], list[int]] = {}
        self._joint: dict[int, list[list[int]]] = {}

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
    def alone(self) -> tuple[list[int], ...]:
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

    def solo(self, target: int, blocked: int = -1) -> list[int]:
        """Per pose, the least actions to face the target; with `blocked`, never entering that cell."""
        key = (target, blocked)
        if key not in self._solo:
            self._solo[key] = self._search(self.targets[target], blocked)
        return self._solo[key]

    def joint(self, target: int) -> list[list[int]]:
        """[pose][partner cell]: the least steps to face the target when the partner makes way as needed."""
        if target not in self._joint:
            self._joint[target] = self._joint_search(self.targets[target]).tolist()
        return self._joint[target]

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

    def _targets(self) -> tuple[Target, ...]:
        spots = [(x, y, tile) for y, row in enumerate(self.rows) for x, tile in enumerate(row)]
        wanted = [
            spot
            for spot in spots
            if spot[2] != FLOOR and (spot[2] != COUNTER or any(n in self.cell_index for n in _around(spot[0], spot[1])))
        ]
        return tuple(Target(i, x, y, kind) for i, (x, y, kind) in enumerate(wanted))

    def _components(self) -> list[int]:
        label = [-1] * len(self.cells)
        for start in range(len(self.cells)):
            if label[start] >= 0:
                continue
            label[start], queue = start, deque([start])
            while queue:
                for neighbour in _around(*self.cells[queue.popleft()]):
                    index = self.cell_index.get(neighbour, -1)
                    if index >= 0 and label[index] < 0:
                        label[index] = start
                        queue.append(index)
        return label

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

    def _moves_from(self, pose: int) -> tuple[tuple[int, int], ...]:
        x, y = self.cells[pose >> 2]
        moves = [(STAY, pose)]
        for action, (dx, dy) in enumerate(DIRECTIONS):
            moves.append((action, 4 * self.cell_index.get((x + dx, y + dy), pose >> 2) + action))
        return tuple(moves)

    def _predecessors(self) -> list[list[int]]:
        into: list[list[int]] = [[] for _ in self.moves]
        for pose, moves in enumerate(self.moves):
            for _, after in moves:
                if after != pose:
                    into[after].append(pose)
        return into

    def _facing(self, target: Target) -> list[int]:
        poses = []
        for facing, (dx, dy) in enumerate(DIRECTIONS):
            cell = (target.x - dx, target.y - dy)
            if cell in self.cell_index:
                poses.append(self.pose(cell, facing))
        return poses

    def _search(self, target: Target, blocked: int) -> list[int]:
        distance = [FAR] * len(self.moves)
        queue: deque[int] = deque()
        for pose in self._facing(target):
            if pose >> 2 != blocked:
                distance[pose] = 0
                queue.append(pose)
        while queue:
            pose = queue.popleft()
            for before in self._into[pose]:
                if distance[before] == FAR and before >> 2 != blocked:
                    distance[before] = distance[pose] + 1
                    queue.append(before)
        return distance

    @cached_property
    def _steps(self) -> _Steps:
        return _Steps.of(self.moves, len(self.cells))

    def _joint_search(self, target: Target) -> npt.NDArray[np.int16]:
        """Backward breadth-first search over (pose, partner cell), a whole level at a time."""
        steps = self._steps
        poses, cells = len(self.moves), len(self.cells)
        distance = np.full((poses, cells), FAR, np.int16)
        level = np.zeros((poses, cells), bool)
        level[self._facing(target)] = True
        level &= steps.apart
        depth = 0
        while level.any():
            distance[level] = depth
            depth += 1
            known = (distance < FAR).astype(np.float32)
            ways = steps.own @ known @ steps.beside
            ways[steps.moved_from, steps.moved_to >> 2] -= known[steps.moved_to, steps.moved_from >> 2]
            level = (ways > 0.5) & steps.apart & (distance == FAR)
        return distance


@dataclass(frozen=True)
class _Steps:
    """One step of a chef (pose to pose) and of its partner (cell to cell) as matrices."""

    own: npt.NDArray[np.float32]
    beside: npt.NDArray[np.float32]
    apart: npt.NDArray[np.bool_]
    moved_from: npt.NDArray[np.intp]
    """Poses before the steps that change the cell; with the partner's reverse they are swaps, which are forbidden."""
    moved_to: npt.NDArray[np.intp]

    @classmethod
    def of(cls, moves: Sequence[Sequence[tuple[int, int]]], cells: int) -> _Steps:
        before = np.array([pose for pose, ways in enumerate(moves) for _ in ways])
        after = np.array([reached for ways in moves for _, reached in ways])
        own = np.zeros((len(moves), len(moves)), np.float32)
        own[before, after] = 1
        beside = np.eye(cells, dtype=np.float32)
        beside[before >> 2, after >> 2] = 1
        apart = (np.arange(len(moves)) >> 2)[:, None] != np.arange(cells)[None, :]
        moved = before >> 2 != after >> 2
        return cls(own, beside, apart, before[moved], after[moved])


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
