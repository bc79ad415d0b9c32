"""Who moves how in one step, for any number of agents on one map.

Agents are taken in the order of rank: the one whose option has been under way longest goes first. Each takes the move
that brings it nearest to its target by the tables; where somebody of lower rank stands, that one is made to move out
of the way first, and so on down the line; what cannot be made free is given up for the next best move (priority
inheritance with backtracking: Okumura et al., "Priority inheritance with backtracking for iterative multi-agent path
finding", 2019). No two agents enter one cell and none swap. An agent that faces its target may finish its primitive
before it makes way, twice per execution of the other at most, so that politeness cannot become a livelock.

One step ahead is not enough in a corridor: somebody pushed into a dead end stays there. When the first in rank gets
no nearer, a `Detour` is searched and kept until it has arrived, and all others stay out of its way. So the first in
rank always arrives within a bounded number of steps, and since a new option comes last in rank, everybody is the
first in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from potluck_optionlib.planners.detour import Detour, Following, find_detour, follow
from potluck_optionlib.planners.tables import FAR, STAY, Cell, Field, Grid

ACT = -2
"""The way of an agent that plays its own primitive in this step."""
_GRANTS = 2
_PAUSE = 8
"""Steps until a search that was given up is tried again."""


class Wish(Enum):
    """What an agent wants of this step."""

    GO = auto()
    """Get to its target."""
    ACT = auto()
    """Play its primitive: it is at its target."""
    HOLD = auto()
    """Stay, but make way when asked."""
    FIXED = auto()
    """Never move, or move as it likes: nobody counts on it."""


_GO, _ACT, _HOLD, _FIXED = Wish.GO, Wish.ACT, Wish.HOLD, Wish.FIXED


@dataclass(slots=True)
class Walker:
    """One agent's part in the plan of a step."""

    wish: Wish
    pose: int
    """Index of its pose in the grid."""
    target: int = -1
    """Index of its target in the grid; -1 for an agent without a place to be."""
    adjacent: bool = True
    """To be beside the target and face it, or on it."""
    rank: tuple[int, int] = (0, 0)
    """Smaller goes first: start of the option, then a seeded tie-break."""
    grants: int = 0
    """How often it let somebody act first during this execution; `plan` counts it up."""


class Joint(NamedTuple):
    """The plan of a step."""

    ways: tuple[int, ...]
    """Per agent: index of a way of its pose, STAY or ACT."""
    detour: Detour | None = None
    """To be given to the next step's plan."""
    hopeless: int = -1
    """An agent that cannot get to its target whatever the others do."""


def plan(grid: Grid, walkers: Sequence[Walker], closed: Collection[Cell] = (), detour: Detour | None = None) -> Joint:
    """Plans one step. `closed`: cells that nobody may enter now. `detour`: from the last step's plan."""
    fixed = [i for i, walker in enumerate(walkers) if walker.wish is _FIXED]
    if len(fixed) == len(walkers):
        return Joint((STAY,) * len(walkers))
    field = grid.field({grid.cell(walkers[i].pose) for i in fixed}.union(closed)) if fixed or closed else grid.open
    if detour is None and (ways := _unhindered(field, walkers, len(grid.facings))):
        return Joint(ways)
    return _settled(_Step(grid, field, walkers), frozenset(fixed), detour)


def _settled(step: _Step, fixed: frozenset[int], detour: Detour | None) -> Joint:
    """The plan of a step in which some are in each other's way, or on a detour."""
    field, walkers, lead = step.field, step.walkers, step.lead()
    if detour is None or lead < 0 or not detour.concerns(lead, walkers[lead].target, walkers[lead].rank):
        detour = None
    elif following := follow(detour, field, step.poses, step.size):
        return Joint(step.along(following), following.detour)
    ways = step.decide()
    if lead < 0 or not step.stalled(lead):
        return Joint(ways)
    if detour is not None and detour.pause > 0:
        return Joint(ways, replace(detour, pause=detour.pause - 1))
    leader = walkers[lead]
    moves = find_detour(field, step.poses, step.size, fixed, lead, leader.target, leader.adjacent)
    if moves is None:
        return Joint(ways, hopeless=lead)
    detour = Detour(lead, leader.target, leader.rank, moves, 0 if moves else _PAUSE)
    following = follow(detour, field, step.poses, step.size)
    return Joint(step.along(following), following.detour) if following else Joint(ways, detour)


def _unhindered(field: Field, walkers: Sequence[Walker], size: int) -> tuple[int, ...]:
    """Everybody's first choice by the tables, which is what `_Step` comes to where no cell is wanted that somebody
    stands on or that another wants, and the first in rank gets nearer. Else (): that is for `_Step` to settle."""
    wanted: list[int] = []
    """Cells that somebody stands on or enters."""
    ways: list[int] = []
    stuck: list[tuple[tuple[int, int], int]] = []
    for agent, walker in enumerate(walkers):
        wish, pose = walker.wish, walker.pose
        cell, way = pose // size, STAY
        wanted.append(cell)
        if wish is _ACT:
            way = ACT
        elif walker.target >= 0 and wish is not _FIXED:
            # A way of the tables leads nearer; where there is none, one is there, or cannot get there.
            way = (field.beside if walker.adjacent else field.on).next[walker.target][pose]
            if way >= 0:
                after = field.after_way[way][pose] // size
                if after != cell:
                    wanted.append(after)
            elif wish is _GO:
                stuck.append((walker.rank, agent))
        ways.append(way)
    if len(set(wanted)) < len(wanted):
        return ()
    if stuck and min(stuck) == min((w.rank, i) for i, w in enumerate(walkers) if w.wish is _GO or w.wish is _ACT):
        return ()
    return tuple(ways)


class _Step:
    """The decisions of one step."""

    def __init__(self, grid: Grid, field: Field, walkers: Sequence[Walker]) -> None:
        self.grid, self.field, self.walkers = grid, field, walkers
        self.poses = tuple(walker.pose for walker in walkers)
        self.size = len(grid.facings)
        self.sequential = not grid.motion.following
        self.cell = [walker.pose // self.size for walker in walkers]
        self.at = {cell: agent for agent, cell in enumerate(self.cell)}
        ranked = sorted([(walker.wish is Wish.HOLD, walker.rank, i) for i, walker in enumerate(walkers)])
        self.order = [i for _, _, i in ranked]
        self._restart(frozenset())

    def _restart(self, reserved: frozenset[int]) -> None:
        self.reserved = reserved
        self.claimed: dict[int, int] = {}
        self.next: dict[int, tuple[int, int]] = {}
        self.excused: set[int] = set()
        """Those for whom somebody makes way in this step, who therefore do not get nearer yet."""
        self.pushing: list[int] = []
        """Cells of those who are being made way for, one after the other."""

    def lead(self) -> int:
        """The first in rank that is on its way, or -1."""
        return next((i for i in self.order if self.walkers[i].wish in (Wish.GO, Wish.ACT)), -1)

    def stalled(self, agent: int) -> bool:
        """Does the agent get no nearer in this step, and nobody makes way for it?"""
        walker = self.walkers[agent]
        if walker.wish is not Wish.GO or agent in self.excused:
            return False
        row = self._row(walker)
        return row[walker.pose] < FAR and row[self.next[agent][1]] >= row[walker.pose]

    def decide(self) -> tuple[int, ...]:
        """Everybody's way by rank."""
        for agent, walker in enumerate(self.walkers):
            if walker.wish is Wish.FIXED:
                self._keep(agent, STAY)
        for agent in self.order:
            if agent not in self.next:
                self._move(agent, -1, agent)
        return tuple(self.next[agent][0] for agent in range(len(self.walkers)))

    def along(self, following: Following) -> tuple[int, ...]:
        """Everybody's way when some follow a detour and the others stay off its cells."""
        self._restart(following.reserved)
        for agent, (way, pose) in following.ways.items():
            acts = self.walkers[agent].wish is Wish.ACT and way == STAY
            self.next[agent] = (ACT if acts else way, pose)
            self.claimed[pose // self.size] = agent
        for agent in following.ways:
            self.claimed.setdefault(self.cell[agent], agent)
        return self.decide()

    def _row(self, walker: Walker) -> Sequence[int]:
        return self.field.table(walker.adjacent).rows[walker.target]

    def _keep(self, agent: int, way: int) -> None:
        self.next[agent] = (way, self.walkers[agent].pose)
        self.claimed.setdefault(self.cell[agent], agent)

    def _move(self, agent: int, pusher: int, root: int) -> bool:
        """Decides an agent; `pusher` wants its cell. False: it stays, so the pusher cannot have it."""
        walker = self.walkers[agent]
        if walker.wish is Wish.ACT and (pusher < 0 or self._grant(root)):
            self.next[agent] = (ACT, walker.pose)
            self.claimed[self.cell[agent]] = agent
            return False
        if self._first(agent, pusher):
            return True
        for way, pose in self._choices(agent):
            cell = pose // self.size
            if self._barred(agent, pusher, cell):
                continue
            self.claimed[cell] = agent
            self.next[agent] = (way, pose)
            other = self.at.get(cell, agent)
            if other == agent or other in self.next or self._push(other, agent, root):
                return True
            if self.claimed.get(cell) == agent:
                del self.claimed[cell]
        self.next[agent] = self._turned(agent, pusher, root) if pusher >= 0 else (STAY, walker.pose)
        self.claimed[self.cell[agent]] = agent
        return False

    def _first(self, agent: int, pusher: int) -> bool:
        """Decides an agent whose first choice by the tables is free, which is most of them; False: it is not."""
        walker = self.walkers[agent]
        way, pose = STAY, walker.pose
        if walker.target >= 0 and walker.wish is not Wish.FIXED:
            way = self.field.table(walker.adjacent).next[walker.target][pose]
            pose = self.field.after(pose, way)
        cell = pose // self.size
        if self._taken(agent, pose) or self._barred(agent, pusher, cell):
            return False
        self.claimed[cell] = agent
        self.next[agent] = (way, pose)
        return True

    def _push(self, other: int, agent: int, root: int) -> bool:
        """Makes another leave its cell. Where nobody can follow, a ring of agents can never turn: none is planned."""
        self.pushing.append(self.cell[agent])
        moved = self._move(other, agent, root)
        self.pushing.pop()
        return moved

    def _turned(self, agent: int, pusher: int, root: int) -> tuple[int, int]:
        """Towards a way out, for one that is asked to make way and looks elsewhere."""
        pose = self.walkers[agent].pose
        exits = [cell for cell in self.field.neighbours[self.cell[agent]] if not self._barred(agent, pusher, cell)]
        for cell in sorted(exits, key=lambda cell: cell in self.at):
            way, after = self.field.towards(pose, cell)
            if after != pose and after // self.size == self.cell[agent]:
                self._grant(root)
                return way, after
        return STAY, pose

    def _grant(self, root: int) -> bool:
        leader = self.walkers[root]
        if leader.grants >= _GRANTS:
            return False
        leader.grants += 1
        self.excused.add(root)
        return True

    def _barred(self, agent: int, pusher: int, cell: int) -> bool:
        if cell in self.claimed or (cell in self.reserved and cell != self.cell[agent]):
            return True
        if pusher >= 0 and (cell == self.cell[pusher] or (self.sequential and cell in self.pushing)):
            return True
        other = self.at.get(cell, agent)
        return other != agent and other in self.next and self.next[other][1] // self.size == self.cell[agent]

    def _choices(self, agent: int) -> list[tuple[int, int]]:
        """(way, pose after), best first."""
        walker = self.walkers[agent]
        ways = [(STAY, walker.pose), *self.field.moves[walker.pose]]
        if walker.target < 0 or walker.wish is Wish.FIXED:
            ways.sort(key=lambda m: (m[1] // self.size != self.cell[agent], m[0] != STAY, self._taken(agent, m[1])))
        else:
            row = self._row(walker)
            ways.sort(key=lambda m: (row[m[1]], self._taken(agent, m[1]), m[0] != STAY))
        return ways

    def _taken(self, agent: int, pose: int) -> bool:
        return self.at.get(pose // self.size, agent) != agent
