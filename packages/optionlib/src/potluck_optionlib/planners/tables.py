"""All-target distance and next-action tables of a map, made by one breadth-first search for all targets at once.

A pose is `cell * facings + facing`. Targets are the cells of the whole map, asked for in one of two manners: to stand
beside one and face it, or to stand on it. The search goes backwards from every target together, a level at a time:
which targets a pose reaches within n steps is a row of bits, and a level is one gather and OR per way. Tables depend
on the cells that are closed (doors, agents that never move), so a `Grid` keeps those of the closings it met last.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from potluck_optionlib.planners.motion import STEPS, Motion, Pose

Cell = tuple[int, int]
FAR = 32_000
"""Distance of what cannot be reached."""
STAY = -1
"""The next action of a pose that is at its target, or cannot get there."""
_KEPT = 64
_KEPT_ENTRIES = 1 << 23
"""Distances that the tables of all kept closings may hold together."""


class Rows(dict[int, Sequence[int]]):
    """Rows of a table, made when they are first asked for: looking a number up costs a third of what NumPy takes."""

    def __init__(self, table: npt.NDArray[Any]) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, index: int) -> Sequence[int]:
        row = self[index] = array(self._table.dtype.char, self._table[index].tobytes())
        return row


@dataclass(frozen=True)
class Table:
    """Distances and next actions to all targets in one manner: [target][pose]."""

    distance: npt.NDArray[np.int16]
    action: npt.NDArray[np.int8]
    """Index into the grid's ways, or STAY."""
    _nearest: dict[tuple[int, ...], tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)

    @cached_property
    def rows(self) -> Rows:
        """`distance` for look-ups here and there."""
        return Rows(self.distance)

    @cached_property
    def next(self) -> Rows:
        """`action` for look-ups here and there."""
        return Rows(self.action)

    def row(self, target: int) -> Sequence[int]:
        """The distances to one target, by pose."""
        return self.rows[target]

    def ways(self, target: int) -> Sequence[int]:
        """The next actions to one target, by pose."""
        return self.next[target]

    def nearest(self, targets: tuple[int, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """[pose]: the nearest of several targets, the first among equals, and how far it is."""
        found = self._nearest.get(targets)
        if found is None:
            distances = self.distance[list(targets)]
            nearest = np.array(targets, np.int32)[distances.argmin(axis=0)]
            found = array("i", nearest.tobytes()), array("h", distances.min(axis=0).tobytes())
            self._nearest[targets] = found
        return found


class Field:
    """The tables under one set of closed cells."""

    def __init__(self, grid: Grid, closed: frozenset[Cell]) -> None:
        self.closed = closed
        self.successors = grid.successors(np.array([cell not in closed for cell in grid.cells], bool))
        self.moves: list[list[tuple[int, int]]] = [
            [(way, after) for way, after in enumerate(ways) if after != pose]
            for pose, ways in enumerate(self.successors.T.tolist())
        ]
        """[pose]: (way, pose after), without ways that change nothing."""
        self._grid = grid

    @cached_property
    def after_way(self) -> list[list[int]]:
        """`successors` for quick look-ups."""
        found: list[list[int]] = self.successors.tolist()
        return found

    @cached_property
    def neighbours(self) -> list[tuple[int, ...]]:
        """[cell]: the cells that can be entered from it, by some facing."""
        size = len(self._grid.facings)
        found: list[set[int]] = [set() for _ in self._grid.cells]
        for pose, moves in enumerate(self.moves):
            found[pose // size].update(after // size for _, after in moves)
        return [tuple(sorted(cells - {cell})) for cell, cells in enumerate(found)]

    @cached_property
    def rooms(self) -> list[int]:
        """[cell]: the first cell of its room: of all that can be walked to from it, or from which it can."""
        room = list(range(len(self._grid.cells)))
        for start in range(len(room)):
            queue = [start] if room[start] == start else []
            for cell in queue:
                fresh = [beside for beside in self.neighbours[cell] if room[beside] > start]
                for beside in fresh:
                    room[beside] = start
                queue += fresh
        return room

    @cached_property
    def beside(self) -> Table:
        """To face a target from the next cell; without facings, to be next to it."""
        return self._search(self._grid.starts_beside)

    @cached_property
    def on(self) -> Table:
        """To stand on a target."""
        return self._search(self._grid.starts_on)

    @cached_property
    def place(self) -> list[int]:
        """[pose]: the first pose of its place: the poses of a cell among which one can turn back and forth."""
        return [
            min(other for other in self._turns(pose) if pose in self._turns(other)) for pose in range(len(self.moves))
        ]

    @cached_property
    def members(self) -> Mapping[int, list[int]]:
        """place -> its poses."""
        found: dict[int, list[int]] = {}
        for pose, place in enumerate(self.place):
            found.setdefault(place, []).append(pose)
        return found

    @cached_property
    def exits(self) -> Mapping[int, list[int]]:
        """place -> the places that are one way on."""
        return {
            place: sorted({self.place[after] for pose in poses for _, after in self.moves[pose]} - {place})
            for place, poses in self.members.items()
        }

    def into(self, pose: int, place: int) -> tuple[int, int]:
        """The first (way, pose after) from a pose into the next place."""
        queue = [(pose, (STAY, pose))]
        for at, first in queue:
            for way, after in self.moves[at]:
                start = first if at != pose else (way, after)
                if self.place[after] == place:
                    return start
                if self.place[after] == self.place[pose] and all(after != seen for seen, _ in queue):
                    queue.append((after, start))
        return STAY, pose

    def _turns(self, pose: int) -> set[int]:
        """Poses that one can turn to without leaving the cell, itself included."""
        size = len(self._grid.facings)
        found, queue = {pose}, [pose]
        for at in queue:
            fresh = {after for _, after in self.moves[at] if after // size == pose // size} - found
            found |= fresh
            queue += fresh
        return found

    def towards(self, pose: int, cell: int) -> tuple[int, int]:
        """The first (way, pose after) on the way to stand on a cell."""
        way = int(self.on.action[self._grid.target_index[self._grid.cells[cell]], pose])
        return way, pose if way == STAY else int(self.successors[way, pose])

    def after(self, pose: int, way: int) -> int:
        """The pose after a way that nobody blocks; the same for STAY, or whatever is below 0."""
        return pose if way < 0 else self.after_way[way][pose]

    def table(self, adjacent: bool) -> Table:
        """`beside` or `on`."""
        return self.beside if adjacent else self.on

    def _search(self, starts: npt.NDArray[np.bool_]) -> Table:
        poses, targets = starts.shape
        seen = np.packbits(starts, axis=1)
        level = seen.copy()
        distance = np.where(np.unpackbits(seen, axis=1, count=targets), np.int16(0), np.int16(FAR))
        for depth in range(1, poses + 1):
            level = np.bitwise_or.reduce(level[self.successors], axis=0) & ~seen
            if not level.any():
                break
            seen |= level
            distance[np.unpackbits(level, axis=1, count=targets).view(bool)] = depth
        nearer = distance[self.successors]
        action = nearer.argmin(axis=0).astype(np.int8)
        action[nearer.min(axis=0) >= distance] = STAY
        return Table(np.ascontiguousarray(distance.T), np.ascontiguousarray(action.T))


class Grid:
    """A map on which agents move: the cells that can ever be stood on, and how one moves."""

    def __init__(self, floor: Collection[Cell], motion: Motion, beyond: Collection[Cell] = ()) -> None:
        """`beyond`: further cells that may be asked for as targets, though nobody can get beside them."""
        self.motion = motion
        self.cells: tuple[Cell, ...] = tuple(sorted(floor, key=lambda cell: (cell[1], cell[0])))
        self.cell_index: Mapping[Cell, int] = {cell: i for i, cell in enumerate(self.cells)}
        self.facings = motion.facings
        self.size = len(self.cells) * len(self.facings)
        self.cell_of: npt.NDArray[np.intp] = np.arange(self.size) // len(self.facings)
        self.ways = max(len(ways) for ways in motion.ways.values())
        around = ((x + dx, y + dy) for x, y in self.cells for dx, dy in ((0, 0), *STEPS.values()))
        self.targets: tuple[Cell, ...] = tuple(sorted({*around, *beyond}, key=lambda cell: (cell[1], cell[0])))
        self.target_index: Mapping[Cell, int] = {cell: i for i, cell in enumerate(self.targets)}
        self._entered, self._kept = self._moves()
        self._most = max(2, min(_KEPT, _KEPT_ENTRIES // (self.size * len(self.targets) or 1)))
        self._pose_index = {
            Pose(x, y, facing): cell * len(self.facings) + i
            for (x, y), cell in self.cell_index.items()
            for i, facing in enumerate(self.facings)
        }
        self._fields: OrderedDict[frozenset[Cell], Field] = OrderedDict()
        self._alive: WeakValueDictionary[frozenset[Cell], Field] = WeakValueDictionary()
        """All that anybody still holds: each of many games in turn may hold its own."""

    def pose(self, pose: Pose) -> int:
        """Index of a pose. Raises KeyError off the floor."""
        return self._pose_index[pose]

    def cell(self, pose: int) -> Cell:
        """The cell of a pose."""
        return self.cells[pose // len(self.facings)]

    def primitive(self, pose: int, way: int) -> str:
        """The name of a way from a pose; of staying for anything below 0."""
        if way < 0:
            return self.motion.stay
        return self.motion.ways[self.facings[pose % len(self.facings)]][way].primitive

    @cached_property
    def tries(self) -> list[tuple[tuple[str, Cell], ...]]:
        """[pose][way]: the name of a way, or of STAY, and the cell that it tries."""
        stay, ways = self.motion.stay, [self.motion.ways[facing] for facing in self.facings]
        return [
            (*[(way.primitive, (x + way.dx, y + way.dy)) for way in tried], (stay, (x, y)))
            for x, y in self.cells
            for tried in ways
        ]

    def field(self, closed: Iterable[Cell] = ()) -> Field:
        """The tables with these cells closed."""
        key = frozenset(closed)
        field = self._alive.get(key)
        if field is None:
            field = self._alive[key] = Field(self, key)
        self._fields[key] = field
        self._fields.move_to_end(key)
        if len(self._fields) > self._most:
            self._fields.popitem(last=False)
        return field

    @cached_property
    def open(self) -> Field:
        """The tables with nothing closed, kept for good."""
        return self.field()

    def successors(self, open_cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        """[way, pose]: the pose after, under these open cells."""
        return np.where(open_cells[self.cell_of[self._entered]], self._entered, self._kept)

    @cached_property
    def starts_beside(self) -> npt.NDArray[np.bool_]:
        """[pose, target]: is the pose beside the target, facing it?"""
        starts = np.zeros((self.size, len(self.targets)), bool)
        for pose in range(self.size):
            x, y = self.cell(pose)
            facing = self.facings[pose % len(self.facings)]
            for dx, dy in (STEPS[facing],) if facing else STEPS.values():
                starts[pose, self.target_index[x + dx, y + dy]] = True
        return starts

    @cached_property
    def starts_on(self) -> npt.NDArray[np.bool_]:
        """[pose, target]: does the pose stand on the target?"""
        starts = np.zeros((self.size, len(self.targets)), bool)
        for pose in range(self.size):
            starts[pose, self.target_index[self.cell(pose)]] = True
        return starts

    def _moves(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """[way, pose]: the pose after when the cell ahead can be entered, and when it cannot."""
        entered = np.tile(np.arange(self.size), (self.ways, 1))
        kept = entered.copy()
        for pose in range(self.size):
            x, y = self.cell(pose)
            for way, move in enumerate(self.motion.ways[self.facings[pose % len(self.facings)]]):
                turned = self.facings.index(move.facing)
                kept[way, pose] = pose - pose % len(self.facings) + turned
                cell = self.cell_index.get((x + move.dx, y + move.dy))
                entered[way, pose] = kept[way, pose] if cell is None else cell * len(self.facings) + turned
        return entered, kept
