"""Two agents on one map, exactly: least steps where the other makes way as needed, and who moves how in a step.

A joint distance counts the steps to a target over all that a pair can do, moves of the other included, so what it
promises can be kept whatever the other wants. Right of way goes to the mover whose option has been under way longest.
It takes a joint step that brings it nearer to its target by that distance, so it arrives within a known number of
steps; among those joint steps, the one that costs the other least is played. An agent that holds, or stands by at a
target of its own, has no right of way and yields when asked, and then comes after the one it made way for; only an
agent that wants the same target queues behind it. One that never moves is gone round.
An agent that faces its target already may finish its primitive first, twice per execution of the other at most, so
that politeness cannot become a livelock.

`traffic.py` plans for any number of agents, but step by step; for two the whole joint map is small enough to know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from potluck_optionlib.planners.tables import FAR, STAY, Cell, Field, Grid
from potluck_optionlib.planners.traffic import ACT, Walker, Wish

_GRANTS = 2
_Moves = Sequence[tuple[int, int]]
"""(way, pose after), staying first."""


@dataclass(slots=True)
class Partner(Walker):
    """One of two walkers."""

    patient: bool = False
    """Would stand by at its target; so queueing for it is waiting, not being blocked."""
    yielded: bool = False
    """Set by `plan_pair`: it stood by and made way."""


class Pairs:
    """A map as two agents share it, with the tables of joint distances that were asked for."""

    def __init__(self, grid: Grid, closed: Collection[Cell] = ()) -> None:
        """Raises ValueError where a neighbouring cell is not one step off whatever the facing, or cannot be followed
        into: there, joint distances would promise too much. `plan` is for these."""
        self.grid, self.closed = grid, tuple(closed)
        self.field = grid.field(closed)
        self.size = len(grid.facings)
        self.moves: tuple[_Moves, ...] = tuple(((STAY, pose), *moves) for pose, moves in enumerate(self.field.moves))
        """[pose]: what an agent can do, without ways that change nothing."""
        if not grid.motion.following or not self._free():
            raise ValueError(
                "Joint distances need a motion by which every neighbouring cell is one step off from every facing and "
                "may be entered as it is left. Use `plan`, which is for any motion."
            )
        self.room = [self.field.rooms[pose // self.size] for pose in range(grid.size)]
        """[pose]: the room that it lies in."""
        self._joint: dict[tuple[int, bool], list[list[int]]] = {}
        self._steps: _Steps | None = None

    def distance(self, target: int, adjacent: bool = True) -> list[list[int]]:
        """[pose][partner's cell]: least steps to a target (index in the grid) when the partner makes way as needed."""
        table = self._joint.get((target, adjacent))
        if table is None:
            starts = self.grid.starts_beside if adjacent else self.grid.starts_on
            table = self._joint[target, adjacent] = self._search(starts[:, target]).tolist()
        return table

    def past(self, cell: int) -> Field:
        """The tables with the cell of a partner that never moves closed, too; -1 for none."""
        return self.field if cell < 0 else self.grid.field((*self.closed, self.grid.cells[cell]))

    def _free(self) -> bool:
        size, neighbours = self.size, self.field.neighbours
        return all(
            {after // size for _, after in moves} - {pose // size} == set(neighbours[pose // size])
            for pose, moves in enumerate(self.moves)
        )

    def _search(self, starts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int16]:
        """Backward breadth-first search over (pose, partner's cell), a whole level at a time."""
        steps = self._steps = self._steps or _Steps.of(self.moves, self.size)
        distance = np.full(steps.apart.shape, FAR, np.int16)
        level = starts[:, None] & steps.apart
        depth = 0
        while level.any():
            distance[level] = depth
            depth += 1
            known = (distance < FAR).astype(np.float32)
            ways = steps.own @ known @ steps.beside
            ways[steps.moved_from, steps.moved_to // self.size] -= known[steps.moved_to, steps.moved_from // self.size]
            level = (ways > 0.5) & steps.apart & (distance == FAR)
        return distance


def plan_pair(pairs: Pairs, first: Partner, second: Partner) -> tuple[int, int]:
    """The ways of both for one step: index of a way of the pose, STAY or ACT; marks grants and yielding on them."""
    if pairs.room[first.pose] != pairs.room[second.pose]:
        return alone(pairs, first), alone(pairs, second)
    walkers = (first, second)
    movers = sorted((i for i in (0, 1) if walkers[i].wish in (Wish.GO, Wish.ACT)), key=lambda i: walkers[i].rank)
    if not movers:
        return STAY, STAY
    leader = movers[0]
    if len(movers) == 2 and _stuck(pairs, walkers[leader], walkers[1 - leader]):
        leader = movers[1]
    lead, other = walkers[leader], walkers[1 - leader]
    way, answer = _queue(pairs, lead, other) if _taken(lead, other) else _pair(pairs, lead, other)
    other.yielded = other.wish is Wish.HOLD and other.target >= 0 and answer != STAY
    return (way, answer) if leader == 0 else (answer, way)


def alone(pairs: Pairs, walker: Walker, blocked: int = -1) -> int:
    """The way of a walker that nobody gets in the way of, past a partner that never moves in the cell `blocked`."""
    if walker.wish is Wish.ACT:
        return ACT
    if walker.wish is not Wish.GO:
        return STAY
    return pairs.past(blocked).table(walker.adjacent).ways(walker.target)[walker.pose]


def lot(seed: int, step: int, agent: int) -> int:
    """The seeded tie-break in `Walker.rank` between two options that start in one step."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=1).digest()
    return agent ^ (digest[0] & 1)


def _stuck(pairs: Pairs, walker: Partner, other: Partner) -> bool:
    if walker.wish is not Wish.GO:
        return False
    return pairs.distance(walker.target, walker.adjacent)[walker.pose][other.pose // pairs.size] >= FAR


def _taken(lead: Partner, other: Partner) -> bool:
    """Does the other stand by where the first wants to go?"""
    return lead.wish is Wish.GO and other.wish is Wish.HOLD and other.target == lead.target


def _queue(pairs: Pairs, lead: Partner, other: Partner) -> tuple[int, int]:
    way, _, _ = _search(pairs, lead, other, pairs.moves[lead.pose], ((STAY, other.pose),))
    if way == STAY and lead.patient:
        lead.wish = Wish.HOLD
    return way, STAY


def _pair(pairs: Pairs, lead: Partner, other: Partner) -> tuple[int, int]:
    """Ways of the agent with right of way and of the other."""
    if other.wish is Wish.FIXED:
        return alone(pairs, lead, other.pose // pairs.size), STAY
    if lead.wish is Wish.ACT:
        if other.wish is Wish.ACT:
            return ACT, ACT
        return ACT, _search(pairs, lead, other, ((STAY, lead.pose),), pairs.moves[other.pose])[1]
    if other.wish is Wish.ACT:
        now = pairs.distance(lead.target, lead.adjacent)[lead.pose][other.pose // pairs.size]
        way, _, cost = _search(pairs, lead, other, pairs.moves[lead.pose], ((STAY, other.pose),))
        if cost < now:
            return way, ACT
        if lead.grants < _GRANTS:
            lead.grants += 1
            return way, ACT
    way, answer, _ = _search(pairs, lead, other, pairs.moves[lead.pose], pairs.moves[other.pose])
    return way, answer


def _search(
    pairs: Pairs, lead: Partner, other: Partner, lead_moves: _Moves, other_moves: _Moves
) -> tuple[int, int, int]:
    """The joint step that is best for the lead, and among those for the other, with the lead's distance after it."""
    size = pairs.size
    lead_table = pairs.distance(lead.target, lead.adjacent)
    other_table = pairs.distance(other.target, other.adjacent) if other.target >= 0 else None
    lead_cell, other_cell = lead.pose // size, other.pose // size
    best = (STAY, STAY, FAR)
    best_lead = best_other = FAR + 1
    for way, pose in lead_moves:
        cell = pose // size
        row = lead_table[pose]
        for answer, other_pose in other_moves:
            there = other_pose // size
            if cell == there or (cell == other_cell and there == lead_cell):
                continue
            cost = row[there]
            if cost > best_lead:
                continue
            other_cost = int(answer != STAY) if other_table is None else other_table[other_pose][cell]
            if cost < best_lead or other_cost < best_other:
                best_lead, best_other = cost, other_cost
                best = (way, answer, cost)
    return best


@dataclass(frozen=True)
class _Steps:
    """One step of an agent (pose to pose) and of its partner (cell to cell) as matrices."""

    own: npt.NDArray[np.float32]
    beside: npt.NDArray[np.float32]
    apart: npt.NDArray[np.bool_]
    moved_from: npt.NDArray[np.intp]
    """Poses before the steps that change the cell; with the partner's reverse they are swaps, which are forbidden."""
    moved_to: npt.NDArray[np.intp]

    @classmethod
    def of(cls, moves: Sequence[_Moves], size: int) -> _Steps:
        cells = len(moves) // size
        before = np.array([pose for pose, ways in enumerate(moves) for _ in ways])
        after = np.array([reached for ways in moves for _, reached in ways])
        own = np.zeros((len(moves), len(moves)), np.float32)
        own[before, after] = 1
        beside = np.eye(cells, dtype=np.float32)
        beside[before // size, after // size] = 1
        apart = (np.arange(len(moves)) // size)[:, None] != np.arange(cells)[None, :]
        moved = before // size != after // size
        return cls(own, beside, apart, before[moved], after[moved])
