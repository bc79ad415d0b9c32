"""What one agent knows: what is in its window now, and the rest as it last saw it.

Sets of cells are numbers, see ground.py. Observations are written from this and from nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from potluck_envs.meltingpot.frame import Stance
from potluck_optionlib.planners import Pose


class Sight(NamedTuple):
    """One agent's knowledge after a step."""

    stance: Stance
    """Where it stands; while it is away, where it stood."""
    pose: Pose
    """The same for planners."""
    away: bool = False
    view: int = 0
    """Cells in its window; none while it is away."""
    seen: int = 0
    """Cells that were ever in it."""
    apples: int = 0
    """Apples where it last saw each cell."""
    dirt: int = 0
    """Dirt where it last saw each cell."""


def looked(sight: Sight, stance: Stance, pose: Pose, view: int, apples: int, dirt: int) -> Sight:
    """The knowledge after a step that led to a stance with this view, under all apples and dirt that there are."""
    _, _, _, _, seen, ripe, dirty = sight
    # What differs in view is put right.
    return _new(
        Sight,
        (stance, pose, False, view, seen | view, ripe ^ (ripe ^ apples) & view, dirty ^ (dirty ^ dirt) & view),
    )


def gone(sight: Sight) -> Sight:
    """The knowledge of an agent that is away."""
    return sight._replace(away=True, view=0)


_new = tuple.__new__
