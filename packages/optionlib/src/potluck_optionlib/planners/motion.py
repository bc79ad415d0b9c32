"""How agents of a game move, as data: for each facing, what each primitive does to a pose.

A way is a primitive with the step it tries (dx, dy; y grows downwards) and the facing it leaves. Where the step's cell
cannot be entered, the agent keeps its cell but takes the facing, as engines do: bumping into a wall is how one turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

NORTH, SOUTH, EAST, WEST = "N", "S", "E", "W"
STEPS = {NORTH: (0, -1), SOUTH: (0, 1), EAST: (1, 0), WEST: (-1, 0)}
"""What one step in each direction is."""
_CLOCKWISE = (NORTH, EAST, SOUTH, WEST)


class Pose(NamedTuple):
    """Where an agent stands and looks."""

    x: int
    y: int
    facing: str = ""
    """"N", "S", "E", "W", or "" in games without facings."""


class Way(NamedTuple):
    """One primitive from a facing."""

    primitive: str
    dx: int
    dy: int
    facing: str
    """The facing after it, entered or not."""


@dataclass(frozen=True, eq=False)
class Motion:
    """A game's moves. Two motions are the same only as one object."""

    ways: dict[str, tuple[Way, ...]]
    """By facing, in the order of preference among equals. Without facings the only key is ""."""
    stay: str
    """The primitive that does nothing."""
    following: bool = True
    """May one enter a cell that another leaves in the same step? False where agents move one after the other."""

    @property
    def facings(self) -> tuple[str, ...]:
        """All facings."""
        return tuple(self.ways)

    @cached_property
    def turns(self) -> Mapping[tuple[str, str], tuple[str, int]]:
        """(facing, facing wanted) -> the first primitive of the shortest turn on the spot, and how many it takes."""
        found: dict[tuple[str, str], tuple[str, int]] = {}
        for start in self.ways:
            queue = [(start, "", 0)]
            for facing, first, count in queue:
                found[start, facing] = (first, count)
                known = {seen for seen, _, _ in queue}
                for way in self.ways[facing]:
                    if (way.dx, way.dy) == (0, 0) and way.facing not in known:
                        known.add(way.facing)
                        queue.append((way.facing, first or way.primitive, count + 1))
        return found


def compass(
    names: Sequence[str], stay: str, *, turns: bool = True, turn_first: bool = False, following: bool = True
) -> Motion:
    """Four primitives, for north, south, east, west.

    `turns`: each leaves the agent facing its way (else agents face nothing). `turn_first`: from another facing a
    primitive only turns, and a second one moves.
    """
    if not turns:
        flat = tuple(Way(name, *step, "") for name, step in zip(names, STEPS.values(), strict=True))
        return Motion({"": flat}, stay, following)

    def way(name: str, to: str, facing: str) -> Way:
        dx, dy = STEPS[to] if to == facing or not turn_first else (0, 0)
        return Way(name, dx, dy, to)

    ways = {f: tuple(way(n, to, f) for n, to in zip(names, STEPS, strict=True)) for f in STEPS}
    return Motion(ways, stay, following)


def driving(
    forward: str = "forward",
    left: str = "turn_left",
    right: str = "turn_right",
    backward: str = "",
    step_left: str = "",
    step_right: str = "",
    stay: str = "stay",
    following: bool = False,
) -> Motion:
    """Forward and turns, and steps backward and sideways where they are named: moves are seen from the facing."""
    quarter = {forward: 0, step_right: 1, backward: 2, step_left: 3}
    ways = {}
    for at, facing in enumerate(_CLOCKWISE):
        moves = [Way(n, *STEPS[_CLOCKWISE[(at + by) % 4]], facing) for n, by in quarter.items() if n]
        turns = [Way(n, 0, 0, _CLOCKWISE[(at + by) % 4]) for n, by in ((left, 3), (right, 1))]
        ways[facing] = (*moves, *turns)
    return Motion({facing: ways[facing] for facing in STEPS}, stay, following)


COMPASS = compass(("N", "S", "E", "W"), "stay")
"""A primitive for each direction, which also turns (Overcooked)."""
FLAT = compass(("N", "S", "E", "W"), "stay", turns=False)
"""A primitive for each direction, no facings."""
DRIVING = driving(backward="backward", step_left="step_left", step_right="step_right")
"""Forward, backward, sideways and turns (Melting Pot)."""
