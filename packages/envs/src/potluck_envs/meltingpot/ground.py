"""What follows from a substrate's map alone, as sets of cells in bits: views, neighbourhoods, beams and places.

A set of cells is a whole number with bit y * width + x for each of them: intersections and counts of what an agent sees
are single operations on numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from potluck_envs.meltingpot.frame import Cell, Stance
from potluck_envs.meltingpot.level import Level, level
from potluck_optionlib.planners import FAR, Pose
from potluck_optionlib.planners.motion import driving
from potluck_optionlib.world import text_of

MOTION = driving("FORWARD", "TURN_LEFT", "TURN_RIGHT", "BACKWARD", "STEP_LEFT", "STEP_RIGHT", "NOOP")
"""Moves are seen from the facing. Agents move one after the other, in an order that the engine draws."""
FACINGS = "NESW"
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Ahead, by facing: 0 to 3 for N, E, S, W."""
REACH = 6
"""Steps within which things are in reach of an agent: instances of options on single cells."""
RAYS = (((1, 0), (2, 0), (3, 0)), ((0, -1), (1, -1), (2, -1)), ((0, 1), (1, 1), (2, 1)))
"""Cells (ahead, to the right) that a beam of length 3 and radius 1 passes. Each ray ends at the first thing it hits."""


_TURNS = (0, 1, 2, 1)
"""Primitives that it takes to turn by so many quarters."""
_MOST = 255
"""Steps and turns that are told apart."""
_BITS = 6
"""Shots at a cell have numbers below 64."""
_AROUND = REACH + 2
_KEPT = 256
"""Cells whose shots are kept."""


class Shot(NamedTuple):
    """A pose from which a beam gets to a cell."""

    pose: Pose
    before: int
    """Cells that the ray passes first; whatever it hits there stops it."""


class _Aims:
    """The shots at a cell, in order for those who stand around it."""

    def __init__(self, shots: Sequence[Shot], index: Mapping[Cell, int]) -> None:
        """index: numbers of the floor's cells."""
        self.shots = shots
        self.before = [shot.before for shot in shots]
        self.rows: dict[int, int] = {}
        """By number of a cell: its place among those that have been put in order."""
        self.order, self.steps = b"", b""
        """[row, facing, place]: numbers of the shots, the soonest first, and steps and turns to each."""
        facings = [FACINGS.index(shot.pose.facing) for shot in shots]
        self._cells = np.array([index[shot.pose.x, shot.pose.y] for shot in shots], np.intp)
        self._turns = np.array([[_TURNS[(there - f) % 4] for there in facings] for f in range(4)], np.int16)

    def put_in_order(self, steps: NDArray[np.int16], cells: NDArray[np.intp]) -> None:
        """Adds the order for some cells. steps: between all cells."""
        walks = steps[cells][:, self._cells]
        keys = np.minimum(walks[:, None, :] + self._turns, _MOST) << _BITS
        keys |= np.arange(len(self.shots), dtype=np.int16)
        keys.sort(axis=2)
        self.rows |= {cell: row for row, cell in enumerate(cells.tolist(), len(self.rows))}
        self.order += (keys & (1 << _BITS) - 1).astype(np.uint8).tobytes()
        self.steps += (keys >> _BITS).astype(np.uint8).tobytes()


@dataclass(frozen=True)
class Place:
    """A part of the map with a name."""

    name: str
    text: str
    """Its middle, "(x,y)"."""
    cells: frozenset[Cell]


class Ground:
    """A level and what can be looked up about it."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.floor = level.floor()
        size = level.width * level.height
        self.cells = [(i % level.width, i // level.width) for i in range(size)]
        self.bit: Mapping[Cell, int] = {cell: 1 << i for i, cell in enumerate(self.cells)}
        self.poses: Mapping[Stance, Pose] = {
            (x, y, f): Pose(x, y, FACINGS[f]) for x, y in self.cells for f in range(len(FACINGS))
        }
        self._index = {cell: i for i, cell in enumerate(sorted(self.floor))}
        self._steps = _all_steps(list(self._index))
        self._places = np.array([x + y * level.width for x, y in self._index])
        """Numbers of the floor's cells, in the order of `_index`."""
        self._near: dict[Cell, int] = {}
        self._views: dict[Stance, int] = {}
        self._columns = [sum(1 << line * level.width for line in range(count)) for count in range(level.height + 1)]
        """[lines]: the leftmost cells of the first so many."""
        self._aims: dict[Cell, _Aims] = {}
        self.cell_of: Mapping[str, Cell] = {text_of(cell): cell for cell in self.cells}
        """Cells by the texts of targets."""

    def mask(self, cells: Iterable[Cell]) -> int:
        """A set of cells as a number."""
        bit, found = self.bit, 0
        for cell in cells:
            found |= bit[cell]
        return found

    def listed(self, mask: int) -> Iterator[Cell]:
        """The cells of a set, in reading order."""
        while mask:
            low = mask & -mask
            yield self.cells[low.bit_length() - 1]
            mask ^= low

    def view(self, stance: Stance) -> int:
        """The cells in an agent's window, as the substrate defines it. Walls hide nothing."""
        seen = self._views.get(stance)
        if seen is None:
            seen = self._views[stance] = self._window(*stance)
        return seen

    def _window(self, x: int, y: int, facing: int) -> int:
        """A window is a rectangle, cut off at the edges of the map."""
        (ax, ay), (rx, ry) = STEPS[facing], STEPS[(facing + 1) % 4]
        level, window = self.level, self.level.view
        xs = (x + window.ahead * ax + window.right * rx, x - window.behind * ax - window.left * rx)
        ys = (y + window.ahead * ay + window.right * ry, y - window.behind * ay - window.left * ry)
        left, right = max(min(xs), 0), min(max(xs), level.width - 1)
        top, bottom = max(min(ys), 0), min(max(ys), level.height - 1)
        row = (1 << right + 1) - (1 << left)
        return row * self._columns[bottom + 1 - top] << top * level.width

    def near(self, cell: Cell) -> int:
        """The cells within `REACH` steps."""
        near = self._near.get(cell)
        if near is None:
            flags = np.zeros(len(self.cells), bool)
            flags[self._places[self._steps[self._index[cell]] <= REACH]] = True
            near = self._near[cell] = int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
        return near

    def steps(self, start: Cell, end: Cell) -> int:
        """Steps from cell to cell, nobody being in the way."""
        return int(self._steps[self._index[start], self._index[end]])

    def shots(self, stance: Stance, target: Cell) -> Iterator[Shot]:
        """Every pose from which a beam can get to a cell, the soonest first for an agent that stands here."""
        x, y, facing = stance
        aims, row = self._aims_from(self._index[x, y], target)
        at = (row * len(FACINGS) + facing) * len(aims.shots)
        return map(aims.shots.__getitem__, aims.order[at : at + len(aims.shots)])

    def soonest(self, stance: Stance, targets: Iterable[Cell], blocking: int) -> list[int]:
        """Steps and turns to the first pose from which a beam gets to each cell past what blocks its rays, or FAR."""
        x, y, facing = stance
        cell, found = self._index[x, y], []
        for target in targets:
            aims, row = self._aims_from(cell, target)
            before, order = aims.before, aims.order
            at = (row * len(FACINGS) + facing) * len(before)
            for place in range(at, at + len(before)):
                if not before[order[place]] & blocking:
                    found.append(aims.steps[place] if aims.steps[place] < _MOST else FAR)
                    break
            else:
                found.append(FAR)
        return found

    def _aims_from(self, cell: int, target: Cell) -> tuple[_Aims, int]:
        """The shots at a cell, and the row of their order for those in another, given by number."""
        aims = self._aims.get(target)
        if aims is None:
            if len(self._aims) >= _KEPT:
                self._aims.clear()
            aims = self._aims[target] = _Aims(list(self._from_around(target)), self._index)
            aims.put_in_order(self._steps, np.flatnonzero(self._steps[self._index[target]] <= _AROUND))
        row = aims.rows.get(cell)
        if row is None:
            aims.put_in_order(self._steps, np.array([cell]))
            row = aims.rows[cell]
        return aims, row

    def _from_around(self, target: Cell) -> Iterator[Shot]:
        for facing in range(len(FACINGS)):
            (ax, ay), (rx, ry) = STEPS[facing], STEPS[(facing + 1) % 4]
            for ray in RAYS:
                for number, (ahead, right) in enumerate(ray):
                    x, y = target[0] - ahead * ax - right * rx, target[1] - ahead * ay - right * ry
                    passed = [(x + a * ax + r * rx, y + a * ay + r * ry) for a, r in ray[:number]]
                    if self.floor.issuperset([(x, y), *passed]):
                        yield Shot(self.poses[x, y, facing], self.mask(passed))


def _all_steps(cells: Sequence[Cell]) -> NDArray[np.int16]:
    """[start, end]: steps between all cells of a floor; FAR where there is no way."""
    index = {cell: i for i, cell in enumerate(cells)}
    nobody = len(cells)
    beside = np.array([[index.get((x + dx, y + dy), nobody) for dx, dy in STEPS] for x, y in cells])
    steps = np.full((nobody, nobody), FAR, np.int16)
    edge = np.eye(nobody, nobody + 1, dtype=bool)
    for count in range(FAR):
        steps[edge[:, :nobody]] = count
        edge[:, :nobody] = edge[:, beside].any(axis=2) & (steps == FAR)
        if not edge.any():
            break
    return steps


@lru_cache(maxsize=8)
def ground(substrate: str) -> Ground:
    """The ground of a substrate, worked out once. Raises UnknownGame, or EngineUnavailable without Melting Pot."""
    return Ground(level(substrate))


def middle(cells: Iterable[Cell]) -> Cell:
    """The cell of a set that is nearest to its centre."""
    known = sorted(cells)
    x, y = (sum(axis) / len(known) for axis in zip(*known, strict=True))
    return min(known, key=lambda cell: (cell[0] - x) ** 2 + (cell[1] - y) ** 2)
