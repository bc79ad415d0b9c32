"""Ways through a kitchen, worked out once by the planners and kept: for play that never looks at single steps.

A chef that nobody can get in the way of (alone, beside a no-op, or in a room of its own) walks the same poses every
time, so a whole walk is one look-up. Where two chefs share a room, one joint step is.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from potluck_envs.overcooked.layout import ACTIONS_OF_WAYS, Layout
from potluck_optionlib.planners import Partner, Wish, plan_pair

_KEPT = 1 << 17
"""Joint steps that are kept at most."""

Step: TypeAlias = tuple[int, int]
Part: TypeAlias = tuple[int, int, int, int, bool]
"""One chef of a joint step: wish, pose, target, grants, patient."""

GO, ACT, HOLD = range(3)
_WISHES = (Wish.GO, Wish.ACT, Wish.HOLD)


class Joint(NamedTuple):
    """A joint step as `plan_pair` decided it."""

    actions: Step
    """Of the engine."""
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
        field = layout.pairs.past(other)
        ways, poses = field.beside.ways(layout.spots[target]), [pose]
        while away[poses[-1]] and len(poses) <= self._longest:
            poses.append(field.after(poses[-1], ways[poses[-1]]))
        return tuple(poses)

    def _joint(self, first: Part, second: Part, first_leads: bool) -> Joint:
        one, other = self._walker(first, 1 - first_leads), self._walker(second, int(first_leads))
        ways, here = plan_pair(self._layout.pairs, one, other), (first[1], second[1])
        there = [self._layout.pairs.field.after(pose, way) for pose, way in zip(here, ways, strict=True)]
        if _collide(here, there):
            there = [before & ~3 | after & 3 for before, after in zip(here, there, strict=True)]
        return Joint(
            (ACTIONS_OF_WAYS[ways[0]], ACTIONS_OF_WAYS[ways[1]]),
            (there[0], there[1]),
            (one.grants, other.grants),
            (one.yielded, other.yielded),
        )

    def _walker(self, part: Part, rank: int) -> Partner:
        wish, pose, target, grants, patient = part
        spot = self._layout.spots[target] if target >= 0 else -1
        return Partner(_WISHES[wish], pose, spot, True, (rank, 0), grants, patient)


def _collide(here: Step, there: list[int]) -> bool:
    """Would two chefs share a cell or swap cells? Then the engine keeps both where they are, turned."""
    first, second = there[0] >> 2, there[1] >> 2
    return first == second or (first == here[1] >> 2 and second == here[0] >> 2)
