"""How chefs in one room get out of each other's way.

Right of way goes to the mover whose option has been under way longest. It takes a joint step that brings it nearer to
its target by the joint-distance table (least steps when the other makes way), so it arrives within a known number of
steps whatever the other wants; among those joint steps, the one that costs the other least is played. A chef that
waits, or stands by at a pot, has no right of way and yields when asked, and then comes after the one it made way for;
only a chef that wants the same pot queues behind it. A no-op chef never moves and is gone round.
A chef that faces its target already may finish its interact first, twice per execution of the other at most, so that
politeness cannot become a livelock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from potluck_envs.overcooked.layout import FAR, INTERACT, STAY, Layout
from potluck_optionlib.planners import Wish

_GRANTS = 2


@dataclass(slots=True)
class Chef:
    """One chef's part in the plan of a step."""

    wish: Wish
    pose: int
    target: int = -1
    """Where it goes, acts or stands by; -1 for a chef without a place to be."""
    rank: tuple[int, int] = (0, 0)
    """Smaller goes first: start of the option, then a seeded tie-break."""
    grants: int = 0
    """How often it let the other act first during this execution."""
    patient: bool = False
    """Would stand by at its target; so queueing for it is waiting, not being blocked."""
    yielded: bool = False
    """Set by `plan`: it stood by and made way."""


def plan(layout: Layout, chefs: Sequence[Chef]) -> list[int]:
    """Primitive actions of all chefs for one step; marks grants on the chefs."""
    if len(chefs) != 2 or not layout.same_room:
        return [_alone(layout, chef) for chef in chefs]
    movers = sorted(
        (i for i, chef in enumerate(chefs) if chef.wish in (Wish.GO, Wish.ACT)), key=lambda i: chefs[i].rank
    )
    if not movers:
        return [STAY, STAY]
    first = movers[0]
    if len(movers) == 2 and _stuck(layout, chefs[first], chefs[1 - first]):
        first = movers[1]
    lead, other = chefs[first], chefs[1 - first]
    joint = _queue(layout, lead, other) if _taken(lead, other) else _pair(layout, lead, other)
    other.yielded = other.wish is Wish.HOLD and other.target >= 0 and joint[1] != STAY
    return list(joint) if first == 0 else [joint[1], joint[0]]


def lot(seed: int, step: int, agent: int) -> int:
    """The seeded tie-break in `Chef.rank` between options that start in one step."""
    digest = hashlib.blake2b(f"{seed}/{step}".encode(), digest_size=1).digest()
    return agent ^ (digest[0] & 1)


def _alone(layout: Layout, chef: Chef, blocked: int = -1) -> int:
    if chef.wish is Wish.ACT:
        return INTERACT
    if chef.wish is not Wish.GO:
        return STAY
    distance = layout.solo(chef.target, blocked)
    best, least = STAY, distance[chef.pose]
    for action, pose in layout.moves[chef.pose]:
        if distance[pose] < least and pose >> 2 != blocked:
            best, least = action, distance[pose]
    return best


def _stuck(layout: Layout, chef: Chef, other: Chef) -> bool:
    return chef.wish is Wish.GO and layout.joint(chef.target)[chef.pose][other.pose >> 2] >= FAR


def _taken(lead: Chef, other: Chef) -> bool:
    """Does the other stand by where the first wants to go?"""
    return lead.wish is Wish.GO and other.wish is Wish.HOLD and other.target == lead.target


def _queue(layout: Layout, lead: Chef, other: Chef) -> tuple[int, int]:
    action, _, _ = _best_lead(layout, lead, other, ((STAY, other.pose),))
    if action == STAY and lead.patient:
        lead.wish = Wish.HOLD
    return action, STAY


def _pair(layout: Layout, lead: Chef, other: Chef) -> tuple[int, int]:
    """Actions of the chef with right of way and of the other."""
    if other.wish is Wish.FIXED:
        return _alone(layout, lead, other.pose >> 2), STAY
    if lead.wish is Wish.ACT:
        return INTERACT, (INTERACT if other.wish is Wish.ACT else _best(layout, other, lead, ((STAY, lead.pose),))[1])
    if other.wish is Wish.ACT:
        now = layout.joint(lead.target)[lead.pose][other.pose >> 2]
        action, _, cost = _best_lead(layout, lead, other, ((STAY, other.pose),))
        if cost < now:
            return action, INTERACT
        if lead.grants < _GRANTS:
            lead.grants += 1
            return action, INTERACT
    action, answer, _ = _best_lead(layout, lead, other, layout.moves[other.pose])
    return action, answer


def _best(layout: Layout, other: Chef, lead: Chef, lead_moves: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The other's best move while the chef with right of way stays where it is."""
    action, answer, _ = _search(layout, lead, other, lead_moves, layout.moves[other.pose])
    return action, answer


def _best_lead(layout: Layout, lead: Chef, other: Chef, other_moves: Sequence[tuple[int, int]]) -> tuple[int, int, int]:
    return _search(layout, lead, other, layout.moves[lead.pose], other_moves)


def _search(
    layout: Layout,
    lead: Chef,
    other: Chef,
    lead_moves: Sequence[tuple[int, int]],
    other_moves: Sequence[tuple[int, int]],
) -> tuple[int, int, int]:
    lead_table = layout.joint(lead.target)
    other_table = layout.joint(other.target) if other.target >= 0 else None
    lead_cell, other_cell = lead.pose >> 2, other.pose >> 2
    best = (STAY, STAY, FAR)
    best_lead = best_other = FAR + 1
    for action, pose in lead_moves:
        cell = pose >> 2
        row = lead_table[pose]
        for answer, other_pose in other_moves:
            there = other_pose >> 2
            if cell == there or (cell == other_cell and there == lead_cell):
                continue
            cost = row[there]
            if cost > best_lead:
                continue
            other_cost = (0 if answer == STAY else 1) if other_table is None else other_table[other_pose][cell]
            if cost < best_lead or other_cost < best_other:
                best_lead, best_other = cost, other_cost
                best = (action, answer, cost)
    return best
