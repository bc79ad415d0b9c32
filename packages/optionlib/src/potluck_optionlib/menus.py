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
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeGuard, runtime_checkable

from potluck_optionlib.contracts import map_order
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import Instance, ItemView, SymbolicGame
from potluck_optionlib.guards import GuardLibrary

LETTERS = string.ascii_uppercase
WAIT = "wait"
_FAR = 1 << 20


@dataclass(frozen=True, slots=True)
class Menu:
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
    return _is_quick(type(game))


@cache
def _is_quick(kind: type[SymbolicGame]) -> bool:
    return issubclass(kind, QuickGame)


def build_menu(
    game: SymbolicGame, agent: int, guards: GuardLibrary, rng: random.Random, limit: int = len(LETTERS)
) -> Menu:
    """The menu of one agent now. Raises ContractError where more option types are feasible than `limit` has places."""
    if not 1 <= limit <= len(LETTERS):
        raise ValueError(f"limit is {limit}; give 1 to {len(LETTERS)}, one letter per item")
    entries = [(instance, game.view(agent, instance)) for instance in feasible(game, agent, guards)]
    kept = _cut(entries, limit)
    rows = [(*entry, word) for entry, word in zip(kept, _words(kept), strict=True)]
    rng.shuffle(rows)
    instances, views, words = zip(*rows, strict=True)
    return Menu(agent, instances, views, words, len(entries) - len(kept))


def _cut(entries: Sequence[tuple[Instance, ItemView]], limit: int) -> list[tuple[Instance, ItemView]]:
    if len(entries) <= limit:
        return list(entries)
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


def _words(entries: Sequence[tuple[Instance, ItemView]]) -> list[str]:
    by_stem: dict[str, list[int]] = defaultdict(list)
    for index, (instance, view) in enumerate(entries):
        if instance.option != WAIT:
            by_stem[view.stem].append(index)
    words = [view.stem for _, view in entries]
    for stem, indices in by_stem.items():
        if len(indices) > 1:
            indices.sort(key=lambda i: map_order(entries[i][0].target))
        for ordinal, index in enumerate(indices, start=1):
            words[index] = f"{stem}{ordinal}"
    return words
