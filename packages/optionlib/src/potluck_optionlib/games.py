"""Finds games through the entry points of the group `potluck.games`."""

from __future__ import annotations

from importlib.metadata import entry_points

from potluck_optionlib.errors import UnknownGameError
from potluck_optionlib.game import GameProvider, SymbolicGame

GROUP = "potluck.games"


def find_provider(name: str) -> GameProvider:
    """The provider whose entry point is named like the part before the slash."""
    engine = name.partition("/")[0]
    known = entry_points(group=GROUP)
    for point in known:
        if point.name == engine:
            provider: GameProvider = point.load()
            return provider
    names = ", ".join(sorted(point.name for point in known)) or "none"
    raise UnknownGameError(f"No installed package offers games of {engine!r} (installed: {names}).")


def make_game(name: str) -> SymbolicGame:
    """A fresh game of this full name."""
    try:
        return find_provider(name).make(name)
    except KeyError as error:
        raise UnknownGameError(str(error.args[0])) from error
