"""Which candidates a chef may begin now, without asking contracts and guards instance by instance.

The outcome is that of `potluck_optionlib.menus.feasible` (a test holds them equal). What is offered of stations and
pots depends on little (reach, hand, pots), so it is kept and found again; counters are gone through each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from potluck_envs.overcooked.ground import Counter
from potluck_envs.overcooked.kitchen import Kitchen
from potluck_envs.overcooked.options import DROP, NOTHING_HELD, TAKE, WAIT, World
from potluck_optionlib.contracts import Contract
from potluck_optionlib.game import Instance
from potluck_optionlib.guards import GuardLibrary

_ITEMS = ("onion", "tomato", "dish", "soup")
_KEPT = 1 << 14


@dataclass(frozen=True, slots=True)
class _Admitted:
    """What is offered under one key."""

    stations: Sequence[Instance]
    drop: Sequence[Counter]
    """Counters within reach, if dropping is allowed there."""
    take: Sequence[Counter]
    items: frozenset[str]
    """What may be taken from a counter."""


_Key = tuple[str, int, frozenset[int], str, tuple[str, ...]]


class Admission:
    """The admission of one layout's games under the same contracts."""

    def __init__(self, contracts: Mapping[str, Contract[World]]) -> None:
        self._contracts = contracts
        self._kept: dict[_Key, _Admitted] = {}

    def now(self, kitchen: Kitchen, agent: int, guards: GuardLibrary) -> list[Instance]:
        """What an agent may begin in the present state, in the contracts' order."""
        pots = tuple([kitchen.pot(target).state for target in kitchen.ground.pots])
        key = (guards.digest, agent, kitchen.within_reach(agent), kitchen.held[agent], pots)
        admitted = self._kept.get(key)
        if admitted is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            admitted = self._kept[key] = self._admit(kitchen, agent, guards)
        lying, items = kitchen.engine.state.objects, admitted.items
        found = [
            *admitted.stations,
            *[counter.drop for counter in admitted.drop if counter.cell not in lying],
            *[c.take for c in admitted.take if (item := lying.get(c.cell)) is not None and item.name in items],
        ]
        found.append(WAIT)
        return found

    def _admit(self, kitchen: Kitchen, agent: int, guards: GuardLibrary) -> _Admitted:
        stations: list[Instance] = []
        for name, contract in self._contracts.items():
            if name in (DROP, TAKE, WAIT.option):
                continue
            for instance in contract.instances(kitchen, agent):
                features = kitchen.features(agent, instance, contract.reads)
                if contract.explicit(kitchen, agent, instance) is None and not guards.forbids(name, features):
                    stations.append(instance)
        reach = kitchen.within_reach(agent)
        near = tuple(c for c in kitchen.ground.counters[agent] if c.target.index in reach)
        drop = near if self._may(kitchen, agent, guards, DROP, "none") else ()
        items = frozenset(item for item in _ITEMS if self._may(kitchen, agent, guards, TAKE, item))
        return _Admitted(stations, drop, near if items else (), items)

    def _may(self, kitchen: Kitchen, agent: int, guards: GuardLibrary, option: str, item: str) -> bool:
        contract, held = self._contracts[option], kitchen.held[agent]
        if NOTHING_HELD in contract.failures and held == "none":
            return False
        return not guards.forbids(option, kitchen.ground.features(contract.reads, held, item))
