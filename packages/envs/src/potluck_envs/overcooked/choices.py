"""What may ever be chosen in a kitchen, and how it is judged: fixed per layout, worked out once, for quick burn-in.

Each counter is either free or not, so a seat always has as many candidates, and a draw among them needs no list. An
effect is judged by the contract's own predicate, once for each distinct change of hand and target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from potluck_envs.overcooked.ground import Ground
from potluck_envs.overcooked.kitchen import NO_FEATURES
from potluck_envs.overcooked.layout import POT, Cell, Target
from potluck_envs.overcooked.options import DROP, NOTHING_HELD, TAKE, WAIT, World
from potluck_optionlib.contracts import Change, Contract
from potluck_optionlib.game import Instance

Look: TypeAlias = tuple[str, tuple[str, ...], str]
"""What an effect sees: the hand, and the pot's contents and phase, or () and what lies on the target."""

_LAST = [DROP, TAKE, WAIT.option]


class Verdict(NamedTuple):
    """How an execution ended, and what its last primitive changed."""

    outcome: str
    own_changed: bool | None
    changed: bool | None


class Option:
    """What all instances of an option type share."""

    __slots__ = ("contract", "counters", "needs_held", "plates", "reads_target", "takes", "timeout", "verdicts")

    def __init__(self, contract: Contract[World]) -> None:
        self.contract, self.timeout = contract, contract.timeout
        self.reads_target = len(contract.reads) > 1
        self.needs_held = NOTHING_HELD in contract.failures
        self.plates = contract.name == "plate_soup"
        self.counters, self.takes = contract.name in (DROP, TAKE), contract.name == TAKE
        self.verdicts: dict[tuple[Look, Look], Verdict] = {}


class Choice(NamedTuple):
    """A candidate of one seat."""

    number: int
    """Tells it from all others of the layout."""
    instance: Instance
    option: Option
    cell: Cell
    place: int
    """Index of the target, or -1."""
    pot: bool


class Menu(NamedTuple):
    """Everything that a seat may ever choose, in the order of the game's candidates."""

    stations: tuple[Choice, ...]
    counters: tuple[tuple[Choice, Choice], ...]
    """Drop and take."""
    size: int
    """Candidates, `wait` included."""
    bits: int
    """Binary digits of `size`."""


class Outset(NamedTuple):
    """What is known when a chef that nobody gets in the way of begins an option."""

    features: Mapping[str, str]
    failed: str
    walk: tuple[int, ...]
    """Poses, beginning with the present one."""
    steps: int
    """Steps until something must be decided."""


class Choices:
    """The candidates of both seats on one layout."""

    def __init__(self, ground: Ground, contracts: Sequence[Contract[World]]) -> None:
        self._ground, self._targets = ground, ground.layout.by_text
        self._options = {contract.name: Option(contract) for contract in contracts}
        self._numbers = count()
        self.wait = Choice(next(self._numbers), WAIT, self._options[WAIT.option], (-1, -1), -1, False)
        self.menus = tuple(self._menu(seat) for seat in ground.seats)
        self.outsets: tuple[dict[tuple[int, int, str, str], Outset], ...] = ({}, {})
        """Solo and team: by choice, pose, hand and what is read of the target."""

    @staticmethod
    def fit(contracts: Sequence[Contract[World]]) -> bool:
        """Are the contracts in the order that menus are built in?"""
        return [contract.name for contract in contracts][-3:] == _LAST

    def features(self, choice: Choice, held: str, what: str) -> Mapping[str, str]:
        """The read set of a choice; equal ones are the same object."""
        reads = choice.option.contract.reads
        return self._ground.features(reads, held, what) if reads else NO_FEATURES

    def verdict(self, choice: Choice, before: Look, after: Look) -> Verdict:
        """Judges an interact."""
        verdict = choice.option.verdicts.get((before, after))
        if verdict is None:
            change = Change(self._facts(choice, *before), self._facts(choice, *after))
            outcome = "success" if choice.option.contract.effect(change) else "effect_fail"
            verdict = Verdict(outcome, before[0] != after[0], change.before != change.after)
            choice.option.verdicts[before, after] = verdict
        return verdict

    def _facts(self, choice: Choice, held: str, contents: tuple[str, ...], what: str) -> Mapping[str, str]:
        ground = self._ground
        if not choice.pot:
            return ground.facts(held, what, None)
        tick = {"cooking": 0, "ready": ground.layout.times.get(contents, 0)}.get(what, -1)
        pot = ground.pot(self._targets[choice.instance.target], contents, tick)
        return ground.facts(held, "soup" if contents else "none", pot)

    def _menu(self, seat: int) -> Menu:
        nobody: Any = None
        stations = [
            self._choice(name, self._targets[instance.target])
            for name, option in self._options.items()
            if name not in _LAST
            for instance in option.contract.instances(nobody, seat)
        ]
        counters = [(self._choice(DROP, c.target), self._choice(TAKE, c.target)) for c in self._ground.counters[seat]]
        size = len(stations) + len(counters) + 1
        return Menu(tuple(stations), tuple(counters), size, size.bit_length())

    def _choice(self, name: str, target: Target) -> Choice:
        number, instance = next(self._numbers), Instance(name, target.text)
        return Choice(number, instance, self._options[name], target.cell, target.index, target.kind == POT)
