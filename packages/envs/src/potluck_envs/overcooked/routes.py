"""Ways through a kitchen, worked out once by `traffic.plan` and kept: for play that never looks at single steps.

A chef that nobody can get in the way of (alone, beside a no-op, or in a room of its own) walks the same poses every
time, so a whole walk is one look-up. Where two chefs share a room, one joint step is.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from potluck_envs.overcooked.layout import INTERACT, STAY, Layout
from potluck_envs.overcooked.traffic import Chef, plan
from potluck_optionlib.planners import Wish

_KEPT = 1 << 17
"""Joint steps that are kept at most."""

Step: TypeAlias = tuple[int, int]
Part: TypeAlias = tuple[int, int, int, int, bool]
"""One chef of a joint step: wish, pose, target, grants, patient."""

GO, ACT, HOLD = range(3)
_WISHES = (Wish.GO, Wish.ACT, Wish.HOLD)


class Joint(NamedTuple):
    """A joint step as `traffic.plan` decided it."""

    actions: Step
    poses: Step
    """Where it leads, when both play their actions."""
    grants: Step
    yielded: tuple[bool, bool]


class Routes:
    """The ways through one layout."""

    def __init__(self, layout: Layout, longest: int) -> None:
        """`longest` is the number of steps after which nobody walks on."""
        self._layout, self._longest = layout, longest
        self._walks: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._joints: dict[tuple[Part, Part, bool], Joint] = {}

    def walk(self, pose: int, target: int, other: int) -> tuple[int, ...]:
        """Poses from one to the first in front of a target, past a partner in the cell `other` (-1: in no way).

        A way that is longer than any option takes is cut.
        """
        key = (pose, target, other)
        walk = self._walks.get(key)
        if walk is None:
            walk = self._walks[key] = self._walk(*key)
        return walk

    def joint(self, first: Part, second: Part, first_leads: bool) -> Joint:
        """One joint step of two chefs that share a room; `first_leads` says whose option is the older."""
        key = (first, second, first_leads)
        joint = self._joints.get(key)
        if joint is None:
            if len(self._joints) >= _KEPT:
                self._joints.clear()
            joint = self._joints[key] = self._joint(*key)
        return joint

    def _walk(self, pose: int, target: int, other: int) -> tuple[int, ...]:
        layout, away = self._layout, self._layout.alone[target]
        poses = [pose]
        while away[poses[-1]] and len(poses) <= self._longest:
            chef, partner = Chef(Wish.GO, poses[-1], target), Chef(Wish.FIXED, max(other, 0) << 2)
            action = plan(layout, (chef, partner))[0]
            poses.append(_after(layout, poses[-1], action))
        return tuple(poses)

    def _joint(self, first: Part, second: Part, first_leads: bool) -> Joint:
        chefs = (_chef(first, 1 - first_leads), _chef(second, int(first_leads)))
        actions = plan(self._layout, chefs)
        here = (first[1], second[1])
        there = [_after(self._layout, pose, action) for pose, action in zip(here, actions, strict=True)]
        if _collide(here, there):
            there = [before & ~3 | after & 3 for before, after in zip(here, there, strict=True)]
        return Joint(
            (actions[0], actions[1]),
            (there[0], there[1]),
            (chefs[0].grants, chefs[1].grants),
            (chefs[0].yielded, chefs[1].yielded),
        )


def _chef(part: Part, rank: int) -> Chef:
    wish, pose, target, grants, patient = part
    return Chef(_WISHES[wish], pose, target, (rank, 0), grants, patient)


def _after(layout: Layout, pose: int, action: int) -> int:
    """The pose after an action that nobody blocks."""
    return pose if action in (STAY, INTERACT) else layout.moves[pose][action + 1][1]


def _collide(here: Step, there: list[int]) -> bool:
    """Would two chefs share a cell or swap cells? Then the engine keeps both where they are, turned."""
    first, second = there[0] >> 2, there[1] >> 2
    return first == second or (first == here[1] >> 2 and second == here[0] >> 2)
