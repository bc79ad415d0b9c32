"""How one agent gets to its target where others must make way over several steps: back off, let pass, go on.

The search moves the leader and, one cell at a time, those in its way; it does not matter who of them ends where, so
its states are the leader's pose and the set of cells that are taken. It begins with those that stand on the leader's
way and takes in more when it bumps into them, so that its size depends on the jam, not on the crowd. A* with a weight,
because a good way that is found soon is worth more than the best one.

What it finds is a sequence of moves. It is carried out as fast as the order allows: a move that enters a cell which no
earlier move still needs is made at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

from potluck_optionlib.planners.tables import STAY, Field, Grid

_State = tuple[int, tuple[int, ...]]
"""The leader's pose and the others' cells, sorted."""
_WEIGHT = 3
_MOST = 3000
"""States that one search looks at."""


@dataclass(frozen=True, slots=True)
class Move:
    """One agent goes from a place to the next: poses for the leader, cells (as indices) for the others."""

    agent: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Detour:
    """A leader's way past others, part of a game's state."""

    lead: int
    target: int
    rank: tuple[int, int]
    moves: tuple[Move, ...]
    """Still to be made, in order. Empty where the search was given up."""
    pause: int = 0
    """Steps until the next search."""

    def concerns(self, lead: int, target: int, rank: tuple[int, int]) -> bool:
        """Is it for this agent's present execution?"""
        return (self.lead, self.target, self.rank) == (lead, target, rank)


@dataclass(frozen=True, slots=True)
class Following:
    """One step along a detour."""

    detour: Detour
    """With the moves that are still to be made."""
    ways: dict[int, tuple[int, int]]
    """(way, pose after) of everybody involved."""
    reserved: frozenset[int]
    """Cells that others must stay off."""


def follow(detour: Detour, grid: Grid, field: Field, poses: Sequence[int]) -> Following | None:
    """The next step of a detour; None where it has ended or somebody is not where it should be."""
    size = len(grid.facings)
    pending = _pending(detour, size, poses)
    if not pending:
        return None
    ways: dict[int, tuple[int, int]] = {}
    needed: set[int] = set()
    taken = {pose // size for pose in poses}
    for move in pending:
        lead = move.agent == detour.lead
        before, after = (move.before // size, move.after // size) if lead else (move.before, move.after)
        if move.agent not in ways:
            pose = poses[move.agent]
            if (pose if lead else pose // size) != move.before:
                return None
            free = after == before or (after not in needed and after not in taken)
            ways[move.agent] = _way(grid, field, pose, move, lead) if free else (STAY, pose)
        needed |= {before, after}
    return Following(replace(detour, moves=pending), ways, frozenset(needed))


def find_detour(
    grid: Grid, field: Field, poses: Sequence[int], fixed: Collection[int], lead: int, target: int, adjacent: bool
) -> tuple[Move, ...] | None:
    """The moves that bring an agent to its target; () where the search was given up, None where there are none."""
    search = _Search(grid, field, poses, fixed, lead, field.table(adjacent).row(target))
    movable = search.on_the_way(field.table(adjacent).action[target].tolist())
    while True:
        moves = search.run(movable)
        if moves is not None or search.left <= 0:
            return moves or ()
        if not search.touched:
            return None
        movable |= search.touched


def _pending(detour: Detour, size: int, poses: Sequence[int]) -> tuple[Move, ...]:
    """Moves not yet made, by where everybody stands."""
    pending: list[Move] = []
    waiting: set[int] = set()
    for move in detour.moves:
        here = poses[move.agent] if move.agent == detour.lead else poses[move.agent] // size
        if move.agent not in waiting and here == move.after:
            waiting.add(move.agent)
            continue
        waiting.add(move.agent)
        pending.append(move)
    return tuple(pending)


def _way(grid: Grid, field: Field, pose: int, move: Move, lead: bool) -> tuple[int, int]:
    if lead:
        return next((way, after) for way, after in field.moves[pose] if after == move.after)
    way = int(field.on.action[grid.target_index[grid.cells[move.after]], pose])
    return way, int(field.successors[way, pose])


class _Search:
    """One leader's searches in one state."""

    def __init__(
        self, grid: Grid, field: Field, poses: Sequence[int], fixed: Collection[int], lead: int, row: Sequence[int]
    ) -> None:
        self.field, self.row, self.lead = field, row, lead
        self.size = len(grid.facings)
        self.start = poses[lead]
        self.others = {pose // self.size: i for i, pose in enumerate(poses) if i != lead and i not in fixed}
        self.left = _MOST
        self.touched: set[int] = set()

    def on_the_way(self, action: Sequence[int]) -> set[int]:
        """Who stands on the leader's shortest way."""
        pose, met = self.start, set()
        while action[pose] != STAY:
            pose = int(self.field.successors[action[pose], pose])
            if pose // self.size in self.others:
                met.add(self.others[pose // self.size])
        return met

    def run(self, movable: set[int]) -> tuple[Move, ...] | None:
        """Moves of the leader and of these agents, everybody else standing; None where there are none."""
        walls = {cell: i for cell, i in self.others.items() if i not in movable}
        first = (self.start, tuple(sorted(cell for cell, i in self.others.items() if i in movable)))
        came: dict[_State, tuple[_State, int, int, bool]] = {}
        steps, ticket, done = {first: 0}, count(), set()
        queue = [(_WEIGHT * self.row[self.start], next(ticket), first)]
        self.touched = set()
        while queue and self.left > 0:
            _, _, state = heappop(queue)
            if state in done:
                continue
            done.add(state)
            self.left -= 1
            if self.row[state[0]] == 0:
                return self._told(came, first, state)
            for after, before_place, place, leads in self._next(state, walls):
                cost = steps[state] + 1
                if after not in done and cost < steps.get(after, 1 << 30):
                    steps[after] = cost
                    came[after] = (state, before_place, place, leads)
                    heappush(queue, (cost + _WEIGHT * self.row[after[0]], next(ticket), after))
        return None

    def _next(self, state: _State, walls: dict[int, int]) -> list[tuple[_State, int, int, bool]]:
        pose, cells = state
        here, found = pose // self.size, []
        for _, after in self.field.moves[pose]:
            cell = after // self.size
            if cell in walls:
                self.touched.add(walls[cell])
            elif cell not in cells:
                found.append(((after, cells), pose, after, True))
        for cell in cells:
            for beside in self.field.neighbours[cell]:
                if beside in walls:
                    self.touched.add(walls[beside])
                elif beside not in cells and beside != here:
                    moved = tuple(sorted(beside if c == cell else c for c in cells))
                    found.append(((pose, moved), cell, beside, False))
        return found

    def _told(
        self, came: dict[_State, tuple[_State, int, int, bool]], first: _State, state: _State
    ) -> tuple[Move, ...]:
        steps = []
        while state != first:
            state, before, after, leads = came[state]
            steps.append((before, after, leads))
        who, moves = dict(self.others), []
        for before, after, leads in reversed(steps):
            if not leads:
                who[after] = who.pop(before)
            moves.append(Move(self.lead if leads else who[after], before, after))
        return tuple(moves)
