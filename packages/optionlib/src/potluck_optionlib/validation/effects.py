"""Asks an effect predicate again, with the actor's own facts taken as unchanged.

A shared-state effect shows in play only when a partner acts in the very same step, which may be once in thousands of
steps. But whether an effect is bound to a private transition can be asked of any success: if it still holds where the
actor's own facts are what they were before, then nothing private is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from potluck_optionlib.contracts import Change, Contract
from potluck_optionlib.executions import Facts
from potluck_optionlib.game import Ended, Instance, SymbolicGame


@runtime_checkable
class FactualGame(Protocol):
    """What a game may tell besides, so that effects can be asked again."""

    def facts(self, agent: int, instance: Instance) -> Facts:
        """What effect predicates compare, by whose it is, in the present state."""
        ...


class Effects:
    """The facts before each step, and what is asked of them."""

    def __init__(self, game: SymbolicGame, contracts: Mapping[str, Contract[Any]]) -> None:
        self._contracts = contracts
        self._game = game if isinstance(game, FactualGame) else None
        self._before: dict[int, Facts] = {}

    def note(self, running: Iterable[tuple[int, Instance]]) -> None:
        """Takes the facts before a step."""
        self._before = {}
        for agent, instance in running:
            contract = self._contracts.get(instance.option)
            if contract is not None and not contract.solo_only and instance.target:
                facts = self._facts(agent, instance)
                if facts is not None:
                    self._before[agent] = facts

    def unbound(self, ended: Ended) -> bool:
        """Would the success that a step has just brought stand without any change of the actor's own?"""
        before = self._before.get(ended.agent)
        after = self._facts(ended.agent, ended.instance) if before is not None and ended.changed else None
        if before is None or after is None:
            return False
        change = Change(before.all(), {**after.all(), **before.own})
        try:
            return bool(self._contracts[ended.instance.option].effect(change))
        except Exception:
            return False

    def _facts(self, agent: int, instance: Instance) -> Facts | None:
        """The facts, or None where the game does not tell any now, such as of a target that has gone."""
        if self._game is None:
            return None
        try:
            return self._game.facts(agent, instance)
        except Exception:
            return None
