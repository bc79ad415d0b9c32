"""Overcooked: the real overcooked-ai 1.1.0 engine, its two-player layouts by name, behind typed options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from potluck_optionlib.contracts import Contract
from potluck_optionlib.game import SymbolicGame
from potluck_optionlib.names import unknown_game
from potluck_optionlib.shipped import shipped

PREFIX = "overcooked/"


class OvercookedProvider:
    """The entry point `overcooked` of the group `potluck.games`."""

    def names(self) -> Sequence[str]:
        """All two-player layouts that the engine ships, sorted."""
        return [PREFIX + layout for layout in two_player_layouts()]

    def make(self, name: str) -> SymbolicGame:
        """A fresh game; "<name>/probe" is the open kitchen that solo-only guards are mined in (see layout.py)."""
        self._known(name)
        from potluck_envs.overcooked.game import make

        return make(name.removeprefix(PREFIX))

    def with_contracts(self, name: str, build: Callable[[Any], Sequence[Contract[Any]]]) -> SymbolicGame:
        """A fresh game under other contracts; `build` gets the `Layout` (see drafting.py)."""
        self._known(name)
        from potluck_envs.overcooked.drafting import with_contracts

        return with_contracts(name.removeprefix(PREFIX), build)

    def draft_notes(self, name: str) -> str:
        """What the author of contracts for a kitchen must know."""
        self._known(name)
        from potluck_envs.overcooked.drafting import NOTES

        return NOTES

    def guards(self, name: str) -> str:
        """The shipped guard library, or ""."""
        return shipped(files(__package__).joinpath("guards"), name.removeprefix(PREFIX))

    def _known(self, name: str) -> None:
        if name.removesuffix("/probe") not in self.names():
            raise unknown_game(name, self.names())


@lru_cache(maxsize=1)
def two_player_layouts() -> tuple[str, ...]:
    """Layouts with two players, found by the digits in their grids."""
    from potluck_envs.overcooked.shim import LAYOUTS_DIR

    names = []
    for path in sorted(Path(LAYOUTS_DIR).glob("*.layout")):
        grid = path.read_text("utf-8").split('"""')[1]
        if {c for c in grid if c.isdigit()} == {"1", "2"}:
            names.append(path.stem)
    return tuple(names)


provider = OvercookedProvider()
