"""What one agent knows: what is in its window now, and the rest as it last saw it.

Sets of cells are numbers, see ground.py. Observations are written from this and from nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from potluck_envs.meltingpot.frame import Stance


class Sight(NamedTuple):
    """One agent's knowledge after a step."""

    stance: Stance
    """Where it stands; while it is away, where it stood."""
    away: bool = False
    view: int = 0
    """Cells in its window; none while it is away."""
    seen: int = 0
    """Cells that were ever in it."""
    apples: int = 0
    """Apples where it last saw each cell."""
    dirt: int = 0
    """Dirt where it last saw each cell."""

    def after(self, stance: Stance | None, view: int, apples: int, dirt: int) -> Sight:
        """The knowledge after a step that led to a stance (None: away), with all apples and dirt that there are."""
        if stance is None:
            return self._replace(away=True, view=0)
        return Sight(
            stance,
            False,
            view,
            self.seen | view,
            self.apples & ~view | apples & view,
            self.dirt & ~view | dirt & view,
        )
