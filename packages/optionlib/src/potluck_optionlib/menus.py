"""Menus: the feasible option instances of one agent at one decision, permuted, lettered and named.

`build_menu` takes the game's candidates, leaves out what an inferred guard forbids and what the executor would refuse
right now, keeps `wait` whatever happens, cuts to the limit (nearest first within each option type, every type kept)
and permutes by the caller's random generator, so that places in the menu carry no information.
"""

from __future__ import annotations

import hashlib
import random
import string
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, runtime_checkable

from potluck_optionlib.contracts import map_order
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import Instance, ItemView, SymbolicGame
from potluck_optionlib.guards import GuardLibrary

_Row: TypeAlias = tuple[Instance, ItemView, str]
LETTERS = string.ascii_uppercase
WAIT = "wait"
_FAR = 1 << 20
_FIRST: tuple[tuple[int, ...], str] = ((), "")
"""No target is before this one in reading order."""


class Menu(NamedTuple):
    """Items in letter order."""

    agent: int
    instances: tuple[Instance, ...]
    views: tuple[ItemView, ...]
    words: tuple[str, ...]
    cut: int
    """Feasible instances left out because the menu was full."""

    @property
    def letters(self) -> tuple[str, ...]:
        """ "A", "B", ... one per item."""
        return tuple(LETTERS[: len(self.instances)])

    @property
    def digest(self) -> str:
        """sha256 of options and targets in letter order."""
        lines = (f"{i.option} {i.target}\n" for i in self.instances)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def find(self, letter: str) -> int | None:
        """Index of a letter on offer, else None."""
        index = LETTERS.find(letter) if len(letter) == 1 else -1
        return index if 0 <= index < len(self.instances) else None


@runtime_checkable
class QuickGame(Protocol):
    """What a game may bring besides, where asking instance by instance costs it too much."""

    def feasible(self, agent: int, guards: GuardLibrary) -> list[Instance]:
        """Exactly what `feasible` would find: same instances, same order."""
        ...


@runtime_checkable
class ViewingGame(Protocol):
    """What a game may bring besides, where it knows how instances look when it finds them."""

    def entries(self, agent: int, guards: GuardLibrary) -> list[tuple[Instance, ItemView]]:
        """Exactly what `feasible` would find, each with what `view` would say of it."""
        ...


def feasible(game: SymbolicGame, agent: int, guards: GuardLibrary) -> list[Instance]:
    """Candidates that no guard forbids and the executor would accept now; never empty."""
    return game.feasible(agent, guards) if _quick(game) else one_by_one(game, agent, guards)


def one_by_one(game: SymbolicGame, agent: int, guards: GuardLibrary) -> list[Instance]:
    """`feasible` by the contracts alone."""
    kept = []
    for instance in game.candidates(agent):
        option = instance.option
        if option != WAIT:
            if guards.guards_option(option) and guards.forbids(option, game.features(agent, instance)):
                continue
            if game.explicit(agent, instance) is not None:
                continue
        kept.append(instance)
    if not any(instance.option == WAIT for instance in kept):
        kept.append(Instance(WAIT))
    return kept


def _quick(game: SymbolicGame) -> TypeGuard[QuickGame]:
    return _is(type(game), QuickGame)


def _viewing(game: SymbolicGame) -> TypeGuard[ViewingGame]:
    return _is(type(game), ViewingGame)


@cache
def _is(kind: type[SymbolicGame], protocol: type[Any]) -> bool:
    return issubclass(kind, protocol)


def build_menu(
    game: SymbolicGame, agent: int, guards: GuardLibrary, rng: random.Random, limit: int = len(LETTERS)
) -> Menu:
    """The menu of one agent now. Raises ContractError where more option types are feasible than `limit` has places."""
    if not 1 <= limit <= len(LETTERS):
        raise ValueError(f"limit is {limit}; give 1 to {len(LETTERS)}, one letter per item")
    entries = _entries(game, agent, guards)
    kept = entries if len(entries) <= limit else _cut(entries, limit)
    rows = _named(kept)
    _shuffle(rows, rng)
    instances, views, words = zip(*rows, strict=True)
    return Menu(agent, instances, views, words, len(entries) - len(kept))


def _entries(game: SymbolicGame, agent: int, guards: GuardLibrary) -> list[tuple[Instance, ItemView]]:
    if _viewing(game):
        return game.entries(agent, guards)
    return [(instance, game.view(agent, instance)) for instance in feasible(game, agent, guards)]


def _cut(entries: Sequence[tuple[Instance, ItemView]], limit: int) -> list[tuple[Instance, ItemView]]:
    by_type: dict[str, list[int]] = defaultdict(list)
    for index, (instance, _) in enumerate(entries):
        by_type[instance.option].append(index)
    if len(by_type) > limit:
        raise ContractError(
            f"{len(by_type)} option types are feasible at once and a menu has {limit} places, so whole types would be "
            "hidden. Merge types, or split the game's options."
        )
    ranked: list[tuple[int, int]] = []
    for indices in by_type.values():
        indices.sort(key=lambda i: (_distance(entries[i][1]), map_order(entries[i][0].target)))
        ranked += [(rank, index) for rank, index in enumerate(indices)]
    kept = sorted(index for _, index in sorted(ranked)[:limit])
    return [entries[index] for index in kept]


def _distance(view: ItemView) -> int:
    return view.steps if view.steps >= 0 else _FAR


def _shuffle(rows: list[Any], rng: random.Random) -> None:
    """What `rng.shuffle` does, by the same draws, in half the time."""
    bits = rng.getrandbits
    for last in range(len(rows) - 1, 0, -1):
        width = (last + 1).bit_length()
        other = bits(width)
        while other > last:
            other = bits(width)
        rows[last], rows[other] = rows[other], rows[last]


def _named(entries: Sequence[tuple[Instance, ItemView]]) -> list[_Row]:
    """Items with their words. Those of a stem are numbered in reading order, which is how games mostly list them."""
    rows: list[_Row] = []
    begun: set[str] = set()
    stem, ordinals, before = "", iter(_numbered("")), _FIRST
    for instance, view in entries:
        option, target = instance
        if option == WAIT:
            rows.append((instance, view, view[0]))
            continue
        order = map_order(target)
        if view[0] != stem:
            stem = view[0]
            ordinals, before = iter(_numbered(stem)), _FIRST
            if stem in begun:
                return _sorted(entries)
            begun.add(stem)
        if order < before:
            return _sorted(entries)
        before = order
        rows.append((instance, view, next(ordinals)))
    return rows


def _sorted(entries: Sequence[tuple[Instance, ItemView]]) -> list[_Row]:
    words = [view[0] for _, view in entries]
    by_stem: dict[str, list[tuple[tuple[tuple[int, ...], str], int]]] = {}
    for index, (instance, _) in enumerate(entries):
        if instance.option != WAIT:
            by_stem.setdefault(words[index], []).append((map_order(instance.target), index))
    for stem, ordered in by_stem.items():
        for (_, index), word in zip(sorted(ordered), _numbered(stem), strict=False):
            words[index] = word
    return [(instance, view, word) for (instance, view), word in zip(entries, words, strict=True)]


@cache
def _numbered(stem: str) -> tuple[str, ...]:
    """The words of a stem's items, as many as a menu has places."""
    return tuple(f"{stem}{ordinal}" for ordinal in range(1, len(LETTERS) + 1))
