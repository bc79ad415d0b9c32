"""Finds games through the entry points of the group `potluck.games`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

from potluck_optionlib.burnin.errors import GameFaultError
from potluck_optionlib.contracts import Contract
from potluck_optionlib.errors import NotDraftableError, OptionlibError, UnknownGameError
from potluck_optionlib.game import GameProvider, SymbolicGame

GROUP = "potluck.games"
_IMPORT = "the plug-in failed on import"


def find_provider(name: str) -> GameProvider:
    """The provider whose entry point is named like the part before the slash."""
    engine = name.partition("/")[0]
    known = entry_points(group=GROUP)
    for point in known:
        if point.name == engine:
            with _faults(name, _IMPORT):
                provider: GameProvider = point.load()
            return provider
    names = ", ".join(sorted(point.name for point in known)) or "none"
    raise UnknownGameError(f"No installed package offers games of {engine!r} (installed: {names}).")


def make_game(name: str) -> SymbolicGame:
    """A fresh game of this full name."""
    provider = find_provider(name)
    with _faults(name, "`make` raised"):
        return provider.make(name)


def shipped_guards(name: str) -> str:
    """The guard library that the provider ships for a game, as text; "" where it ships none."""
    provider = find_provider(name)
    with _faults(name, "`guards` raised"):
        return provider.guards(name)


@contextmanager
def _faults(name: str, what: str) -> Iterator[None]:
    """A KeyError says that nobody knows the game; whatever else a plug-in raises is its fault, SystemExit too."""
    try:
        yield
    except (OptionlibError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, KeyError) and what != _IMPORT:
            raise UnknownGameError(str(error.args[0] if error.args else name)) from error
        raise GameFaultError(
            f"{name}: {what} ({type(error).__name__}: {error}). Mend the game's plug-in, or install it again."
        ) from error


@runtime_checkable
class DraftableProvider(Protocol):
    """What a game provider adds so that option libraries can be drafted for its games.

    `with_contracts` makes a game under somebody else's contracts. `build` is called with what the contracts of this
    game are written against (the world, a layout: the provider says which) and gives the contracts, `wait` among them.
    A provider may also have `draft_notes(name) -> str`: for the model, what `build` gets, which targets, features and
    facts there are, and whether contracts need executors.
    """

    def with_contracts(self, name: str, build: Callable[[Any], Sequence[Contract[Any]]]) -> SymbolicGame:
        """A fresh game under these contracts. Raises what `build` raises, and KeyError for an unknown name."""
        ...


def find_draftable(name: str) -> DraftableProvider:
    """The provider of a game, if contracts can be drafted for it."""
    provider = find_provider(name)
    if not isinstance(provider, DraftableProvider):
        raise NotDraftableError(
            f"The provider of {name} has no `with_contracts`, so no contracts can be drafted for it. "
            "See DraftableProvider in potluck_optionlib.games."
        )
    return provider


def draft_notes(name: str) -> str:
    """What the provider tells the model about its contracts' world, or ""."""
    notes = getattr(find_draftable(name), "draft_notes", None)
    try:
        return str(notes(name)) if callable(notes) else ""
    except KeyError as error:
        raise UnknownGameError(str(error.args[0])) from error
