"""What follows from a substrate's map alone, as sets of cells in bits: views, neighbourhoods, beams and places.

A set of cells is a whole number with bit y * width + x for each of them: intersections and counts of what an agent sees
are single operations on numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from potluck_envs.meltingpot.frame import Cell, Stance
from potluck_envs.meltingpot.level import Level, level
from potluck_optionlib.planners import FAR, Pose
from potluck_optionlib.planners.motion import driving
from potluck_optionlib.world import text_of

T = TypeVar("T")

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
    """The shots at a cell, and for those who stand around it the soonest one of each kind of ray."""

    def __init__(self, shots: Sequence[Shot], index: Mapping[Cell, int]) -> None:
        """index: numbers of the floor's cells."""
        self.shots = shots
        self.before = [*[shot.before for shot in shots], 0]
        """By number of a shot; the number after the last stands for none, which nothing stops."""
        self.places: dict[int, int] = {}
        """By number of a cell: where its rows begin, one for each facing."""
        self.order, self.steps = b"", b""
        """[place]: numbers of shots, the soonest first, and steps and turns to each. A row holds one shot of those
        whose rays pass the same cells, and ends with none."""
        self.width = len(set(self.before[:-1])) + 1
        facings = [FACINGS.index(shot.pose.facing) for shot in shots]
        kinds = {before: kind for kind, before in enumerate(dict.fromkeys(self.before[:-1]))}
        kind = np.array([kinds[shot.before] for shot in shots], np.intp)
        self._by_kind = np.argsort(kind, kind="stable")
        self._starts = np.searchsorted(kind[self._by_kind], np.arange(len(kinds)))
        self._cells = np.array([index[shot.pose.x, shot.pose.y] for shot in shots], np.intp)
        self._turns = np.array([[_TURNS[(there - f) % 4] for there in facings] for f in range(4)], np.int16)

    def put_in_order(self, steps: NDArray[np.int16], cells: NDArray[np.intp]) -> None:
        """Adds the rows of some cells. steps: between all cells."""
        keys = self._keys(steps, cells)[:, :, self._by_kind]
        soonest = np.full((len(cells), len(FACINGS), self.width), _MOST << _BITS | len(self.shots), np.int16)
        if len(self.shots):
            soonest[:, :, :-1] = np.minimum.reduceat(keys, self._starts, axis=2)
            soonest.sort(axis=2)
        size, begun = len(FACINGS) * self.width, len(self.order)
        self.places |= {cell: begun + size * row for row, cell in enumerate(cells.tolist())}
        self.order += (soonest & (1 << _BITS) - 1).astype(np.uint8).tobytes()
        self.steps += (soonest >> _BITS).astype(np.uint8).tobytes()

    def sorted(self, steps: NDArray[np.int16], cell: int, facing: int) -> list[Shot]:
        """All shots, the soonest first."""
        keys = np.sort(self._keys(steps, np.array([cell]))[0, facing])
        return [self.shots[number] for number in (keys & (1 << _BITS) - 1).tolist()]

    def _keys(self, steps: NDArray[np.int16], cells: NDArray[np.intp]) -> NDArray[np.int16]:
        """[cell, facing, shot]: steps and turns, before the shot's number."""
        walks = steps[cells][:, self._cells]
        keys: NDArray[np.int16] = np.minimum(walks[:, None, :] + self._turns, np.int16(_MOST)) << _BITS
        keys |= np.arange(len(self.shots), dtype=np.int16)
        return keys


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
        self._columns = [sum(1 << line * level.width for line in range(count)) for count in range(level.height + 1)]
        """[lines]: the leftmost cells of the first so many."""
        self.views: Mapping[Stance, int] = {
            (x, y, facing): self._window(x, y, facing) for x, y in self.floor for facing in range(len(FACINGS))
        }
        """The cells in an agent's window, as the substrate defines it. Walls hide nothing."""
        self.near: Mapping[Cell, int] = self._all_near()
        """The cells within `REACH` steps."""
        self._aims: dict[Cell, _Aims] = {}
        self.cell_of: Mapping[str, Cell] = {text_of(cell): cell for cell in self.cells}
        """Cells by the texts of targets."""
        self.bit_of = {text: self.bit[cell] for text, cell in self.cell_of.items()}
        """Sets of one cell by the texts of targets."""
        for site in level.dirt_sites:
            self._aims_at(site)

    def mask(self, cells: Iterable[Cell]) -> int:
        """A set of cells as a number."""
        bit, found = self.bit, 0
        for cell in cells:
            found |= bit[cell]
        return found

    def picked(self, things: Sequence[T], mask: int) -> list[T]:
        """Of things, one for each cell, those in a set of cells, in reading order."""
        found = []
        while mask:
            low = mask & -mask
            found.append(things[low.bit_length() - 1])
            mask ^= low
        return found

    def listed(self, mask: int) -> Iterator[Cell]:
        """The cells of a set, in reading order."""
        return iter(self.picked(self.cells, mask))

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

    def _all_near(self) -> dict[Cell, int]:
        flags = np.zeros((len(self._index), len(self.cells)), bool)
        flags[:, self._places] = self._steps <= REACH
        rows = np.packbits(flags, axis=1, bitorder="little")
        return {cell: int.from_bytes(row.tobytes(), "little") for cell, row in zip(self._index, rows, strict=True)}

    def steps(self, start: Cell, end: Cell) -> int:
        """Steps from cell to cell, nobody being in the way."""
        return int(self._steps[self._index[start], self._index[end]])

    def shots(self, stance: Stance, target: Cell) -> Iterator[Shot]:
        """Every pose from which a beam can get to a cell, the soonest first for an agent that stands here."""
        x, y, facing = stance
        return iter(self._aims_at(target).sorted(self._steps, self._index[x, y], facing))

    def aims(self, stance: Stance, target: Cell, blocking: int) -> Iterator[Pose]:
        """The poses from which a beam gets to a cell past what blocks its rays, the soonest first."""
        [(aims, at)] = self._first(stance, (target,), blocking)
        if aims.order[at] < len(aims.shots):
            first = aims.shots[aims.order[at]]
            yield first.pose
            for shot in self.shots(stance, target):
                if not shot.before & blocking and shot is not first:
                    yield shot.pose

    def soonest(self, stance: Stance, targets: Iterable[Cell], blocking: int) -> list[int]:
        """Steps and turns to the first of the poses that `aims` names for each cell, or FAR."""
        steps = [aims.steps[at] for aims, at in self._first(stance, targets, blocking)]
        return steps if max(steps, default=0) < _MOST else [n if n < _MOST else FAR for n in steps]

    def _first(self, stance: Stance, targets: Iterable[Cell], blocking: int) -> list[tuple[_Aims, int]]:
        """The shots at each cell, and the place of the soonest one past what blocks."""
        x, y, facing = stance
        cell, known, found = self._index[x, y], self._aims, []
        for target in targets:
            aims = known.get(target) or self._aims_at(target)
            at = aims.places.get(cell)
            if at is None:
                aims.put_in_order(self._steps, np.array([cell]))
                at = aims.places[cell]
            at += facing * aims.width
            before, order = aims.before, aims.order
            while before[order[at]] & blocking:
                at += 1
            found.append((aims, at))
        return found

    def _aims_at(self, target: Cell) -> _Aims:
        aims = self._aims.get(target)
        if aims is None:
            if len(self._aims) >= _KEPT:
                self._aims.clear()
            aims = self._aims[target] = _Aims(list(self._from_around(target)), self._index)
            aims.put_in_order(self._steps, np.flatnonzero(self._steps[self._index[target]] <= _AROUND))
        return aims

    def _from_around(self, target: Cell) -> Iterator[Shot]:
        """A ray that has come to the target has passed the cells on this side of it."""
        tx, ty = target
        for facing in range(len(FACINGS)):
            (ax, ay), (rx, ry) = STEPS[facing], STEPS[(facing + 1) % 4]
            passed = list(takewhile(self.floor.__contains__, [(tx - n * ax, ty - n * ay) for n in (1, 2)]))
            before = [self.mask(passed[:n]) for n in range(len(passed) + 1)]
            for ray in RAYS:
                for (ahead, right), cells in zip(ray, before, strict=False):
                    x, y = tx - ahead * ax - right * rx, ty - ahead * ay - right * ry
                    if (x, y) in self.floor:
                        yield Shot(self.poses[x, y, facing], cells)


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
