"""How one agent gets to its target where others must make way over several steps: back off, let pass, go on.

The search moves the leader and, one cell at a time, those in its way; it does not matter who of them ends where, so
its states are the leader's place and the set of cells that are taken. A place is a cell with those facings among which
one can turn without leaving it (all of them, where turns are primitives). It begins with those that stand on the
leader's way and takes in the nearest that it bumps into when it fails, so that its size depends on the jam, not on the
crowd. Moves of others cost more than the leader's, so that they are not sent about: a way found soon is worth more
than the shortest one.

What it finds is a sequence of moves. It is carried out as fast as the order allows: a move that enters a cell which no
earlier move still needs is made at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

from potluck_optionlib.planners.tables import STAY, Field

_State = tuple[int, tuple[int, ...]]
"""The leader's place and the others' cells, sorted."""
_WEIGHT = 2
_ASKED = 4
"""Cost of a move of another, in moves of the leader."""
_MOST = 12000
"""States that one search looks at."""


@dataclass(frozen=True, slots=True)
class Move:
    """One agent goes from one place to the next: the leader by places (named by a pose), the others by cells."""

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


def follow(detour: Detour, field: Field, poses: Sequence[int], size: int) -> Following | None:
    """The next step of a detour, for `size` facings; None where it has ended or somebody is not where it should be."""
    places = [field.place[pose] if i == detour.lead else pose // size for i, pose in enumerate(poses)]
    pending = _pending(detour, places)
    if not pending:
        return None
    ways: dict[int, tuple[int, int]] = {}
    needed: set[int] = set()
    taken = {pose // size for pose in poses}
    for move in pending:
        lead, agent = move.agent == detour.lead, move.agent
        before, after = (move.before // size, move.after // size) if lead else (move.before, move.after)
        if agent not in ways:
            if places[agent] != move.before:
                return None
            if after in needed or (after in taken and after != before):
                ways[agent] = (STAY, poses[agent])
            else:
                ways[agent] = field.into(poses[agent], move.after) if lead else field.towards(poses[agent], after)
        needed |= {before, after}
    return Following(replace(detour, moves=pending), ways, frozenset(needed))


def find_detour(
    field: Field, poses: Sequence[int], size: int, fixed: Collection[int], lead: int, target: int, adjacent: bool
) -> tuple[Move, ...] | None:
    """The moves that bring an agent to its target; () where the search was given up, None where there are none."""
    table = field.table(adjacent)
    search = _Search(field, poses, size, fixed, lead, table.row(target))
    movable = search.on_the_way(table.action[target].tolist())
    while True:
        moves = search.run(movable)
        if moves is not None or search.left <= 0:
            return moves or ()
        if not search.touched:
            return None
        movable.add(min(search.touched, key=search.how_far))


def _pending(detour: Detour, places: Sequence[int]) -> tuple[Move, ...]:
    """Moves not yet made, by where everybody stands."""
    pending: list[Move] = []
    seen: set[int] = set()
    for move in detour.moves:
        if move.agent in seen or places[move.agent] != move.after:
            pending.append(move)
        seen.add(move.agent)
    return tuple(pending)


class _Search:
    """One leader's searches in one state."""

    def __init__(
        self, field: Field, poses: Sequence[int], size: int, fixed: Collection[int], lead: int, row: Sequence[int]
    ) -> None:
        self.field, self.lead, self.size = field, lead, size
        self.pose, self.start, self.row = poses[lead], field.place[poses[lead]], row
        self.others = {pose // size: i for i, pose in enumerate(poses) if i != lead and i not in fixed}
        self.left = _MOST
        self.touched: set[int] = set()
        """Cells of standing others that were in the way."""

    def on_the_way(self, action: Sequence[int]) -> set[int]:
        """Cells of those who stand on the leader's shortest way."""
        pose, met = self.pose, set()
        while action[pose] != STAY:
            pose = int(self.field.successors[action[pose], pose])
            met.add(pose // self.size)
        return met & self.others.keys()

    def how_far(self, cell: int) -> tuple[int, int]:
        """Sort key of others: the nearest to the leader first."""
        return abs(min(self.row[cell * self.size : (cell + 1) * self.size]) - self.row[self.pose]), cell

    def run(self, movable: set[int]) -> tuple[Move, ...] | None:
        """Moves of the leader and of those in these cells, everybody else standing; None where there are none."""
        walls = self.others.keys() - movable
        first = (self.start, tuple(sorted(movable)))
        came: dict[_State, tuple[_State, int, int]] = {}
        costs, ticket, done = {first: 0}, count(), set()
        queue = [(0, next(ticket), first)]
        self.touched = set()
        while queue and self.left > 0:
            _, _, state = heappop(queue)
            if state in done:
                continue
            done.add(state)
            self.left -= 1
            if self._far(state[0]) == 0:
                return self._told(came, first, state)
            for after, before_cell, cell, cost in self._next(state, walls):
                total = costs[state] + cost
                if after not in done and total < costs.get(after, 1 << 30):
                    costs[after] = total
                    came[after] = (state, before_cell, cell)
                    heappush(queue, (total + _WEIGHT * self._far(after[0]), next(ticket), after))
        return None

    def _next(self, state: _State, walls: Collection[int]) -> list[tuple[_State, int, int, int]]:
        """(state, cell before, cell after, cost) of every move."""
        place, cells = state
        here, found = place // self.size, []
        for after in self.field.exits[place]:
            cell = after // self.size
            if cell in walls:
                self.touched.add(cell)
            elif cell not in cells:
                found.append(((after, cells), place, after, 1))
        for cell in cells:
            for beside in self.field.neighbours[cell]:
                if beside in walls:
                    self.touched.add(beside)
                elif beside not in cells and beside != here:
                    moved = tuple(sorted(beside if c == cell else c for c in cells))
                    found.append(((place, moved), cell, beside, _ASKED))
        return found

    def _far(self, place: int) -> int:
        return min(self.row[pose] for pose in self.field.members[place])

    def _told(self, came: dict[_State, tuple[_State, int, int]], first: _State, state: _State) -> tuple[Move, ...]:
        steps: list[tuple[_State, _State, int, int]] = []
        while state != first:
            earlier, before, after = came[state]
            steps.append((earlier, state, before, after))
            state = earlier
        who, moves = dict(self.others), []
        for (place, _), (later, _), before, after in reversed(steps):
            if place != later:
                moves.append(Move(self.lead, before, after))
            else:
                who[after] = who.pop(before)
                moves.append(Move(who[after], before, after))
        return tuple(moves)
