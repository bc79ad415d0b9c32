"""Overcooked: the real overcooked-ai 1.1.0 engine, its two-player layouts by name, behind typed options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from potluck_optionlib.game import SymbolicGame

PREFIX = "overcooked/"


class OvercookedProvider:
    """The entry point `overcooked` of the group `potluck.games`."""

    def names(self) -> Sequence[str]:
        """All two-player layouts that the engine ships, sorted."""
        return [PREFIX + layout for layout in two_player_layouts()]

    def make(self, name: str) -> SymbolicGame:
        """A fresh game; "<name>/probe" is the open kitchen that solo-only guards are mined in (see layout.py)."""
        if name.removesuffix("/probe") not in self.names():
            raise KeyError(f"no game {name!r}; known: {', '.join(self.names())}")
        from potluck_envs.overcooked.game import make

        return make(name.removeprefix(PREFIX))

    def guards(self, name: str) -> str:
        """The shipped guard library, or ""."""
        resource = files(__package__).joinpath("guards", f"{name.removeprefix(PREFIX)}.json")
        return resource.read_text("utf-8") if resource.is_file() else ""


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
