"""A substrate's map: what never changes. Cells are (x, y), y downwards. Loads the configuration, not the engine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.frame import Cell
from potluck_envs.meltingpot.substrates import substrate

REACH = 2
"""Radius within which apples help each other grow, which is what joins apple sites to a patch."""

WALL, FLOOR, GRASS, RIVER = "wall", "sand", "grass", "river"
"""Names of tiles, as the report's viewer knows them."""


@dataclass(frozen=True)
class View:
    """What an agent can see: cells ahead, behind and to the sides of it."""

    ahead: int
    behind: int
    left: int
    right: int


@dataclass(frozen=True)
class Level:
    """The map of a substrate."""

    name: str
    width: int
    height: int
    tiles: tuple[str, ...]
    """Row by row: WALL, FLOOR, GRASS or RIVER."""
    apple_sites: frozenset[Cell]
    """Where apples can grow."""
    dirt_sites: frozenset[Cell]
    """River cells that can be dirty."""
    spawns: frozenset[Cell]
    """Where agents come into play."""
    view: View
    actions: tuple[str, ...]

    def tile(self, cell: Cell) -> str:
        """Name of a cell's tile."""
        x, y = cell
        return self.tiles[y * self.width + x]

    def cells(self, *tiles: str) -> frozenset[Cell]:
        """Cells with one of these tiles."""
        width = self.width
        return frozenset((i % width, i // width) for i, tile in enumerate(self.tiles) if tile in tiles)

    def floor(self) -> frozenset[Cell]:
        """Cells that agents can stand on: all but walls. Rivers can be waded."""
        return self.cells(FLOOR, GRASS, RIVER)

    def walls(self) -> frozenset[Cell]:
        """Cells that nobody enters and no beam passes."""
        return self.cells(WALL)

    def river(self) -> frozenset[Cell]:
        """All cells of the river, those that never get dirty included."""
        return self.cells(RIVER)

    def patches(self) -> tuple[tuple[Cell, ...], ...]:
        """Apple sites that help each other grow, directly or through others; in reading order."""
        return _patches(self.apple_sites)


@lru_cache(maxsize=8)
def level(name: str) -> Level:
    """The level of a substrate. Raises UnknownGame, or EngineUnavailable where Melting Pot is not installed."""
    known = substrate(name)
    module = stack.config(name)
    rows = module.ASCII_MAP.strip("\n").split("\n")
    prefabs = {mark: _prefabs(entry) for mark, entry in module.CHAR_PREFAB_MAP.items()}
    marked = {(x, y): prefabs[mark] for y, row in enumerate(rows) for x, mark in enumerate(row)}

    def cells(*names: str) -> frozenset[Cell]:
        return frozenset(cell for cell, there in marked.items() if any(name in there for name in names))

    return Level(
        name,
        len(rows[0]),
        len(rows),
        tuple(_tile(marked[x, y]) for y in range(len(rows)) for x in range(len(rows[0]))),
        cells("potential_apple", "apple"),
        cells("potential_dirt", "actual_dirt"),
        cells("spawn_point", "inside_spawn_point"),
        _view(module),
        known.actions,
    )


def _prefabs(entry: str | dict[str, object]) -> tuple[str, ...]:
    names = [entry] if isinstance(entry, str) else entry["list"]
    assert isinstance(names, list)
    return tuple(map(str, names))


def _tile(prefabs: Collection[str]) -> str:
    return next((tile for tile in (WALL, RIVER, GRASS) if tile in prefabs), FLOOR)


def _view(module: object) -> View:
    """The avatar's view as the configuration says it."""
    avatar = module.create_avatar_objects(2)[0]  # type: ignore[attr-defined]
    [found] = [c["kwargs"]["view"] for c in avatar["components"] if c["component"] == "Avatar"]
    return View(found["forward"], found["backward"], found["left"], found["right"])


@lru_cache(maxsize=8)
def _patches(sites: frozenset[Cell]) -> tuple[tuple[Cell, ...], ...]:
    left, found = set(sites), []
    for start in sorted(sites, key=lambda cell: (cell[1], cell[0])):
        if start not in left:
            continue
        left.remove(start)
        patch, edge = {start}, [start]
        while edge:
            x, y = edge.pop()
            near = {cell for cell in left if (cell[0] - x) ** 2 + (cell[1] - y) ** 2 <= REACH**2}
            left -= near
            patch |= near
            edge += near
        found.append(tuple(sorted(patch, key=lambda cell: (cell[1], cell[0]))))
    return tuple(found)
