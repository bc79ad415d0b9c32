"""A pot as quick burn-in sees it: the engine's own soup, with what is asked of it at every turn kept beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potluck_envs.overcooked.options import pot_state


class Kettle:
    """One pot. `look_into` must be called whenever the engine may have put in, taken out or set cooking something."""

    __slots__ = ("_still", "contents", "cook_time", "idle", "soup")

    def __init__(self) -> None:
        self.look_into(None, {})

    def look_into(self, soup: Any, times: Mapping[tuple[str, ...], int]) -> None:
        """Takes over what the engine has there; `times` are the cook times of sorted contents."""
        self.soup = soup
        self.contents: tuple[str, ...] = (
            () if soup is None else tuple(sorted([part.name for part in soup._ingredients]))
        )
        self.cook_time = times.get(self.contents, 0)
        self._still = "idle" if self.contents else "empty"
        self.idle = pot_state(self.contents, self._still)
        """The feature `tgt_pot_state` while it does not cook."""

    @property
    def phase(self) -> str:
        """ "empty", "idle", "cooking" or "ready"; see options.pot_phase."""
        soup = self.soup
        if soup is None or soup._cooking_tick < 0:
            return self._still
        return "ready" if soup._cooking_tick >= self.cook_time else "cooking"

    @property
    def state(self) -> str:
        """The feature `tgt_pot_state`."""
        soup = self.soup
        if soup is None or soup._cooking_tick < 0:
            return self.idle
        return "ready" if soup._cooking_tick >= self.cook_time else "cooking"

    @property
    def left(self) -> int:
        """Steps until a cooking soup is ready."""
        return int(self.cook_time - self.soup._cooking_tick)
