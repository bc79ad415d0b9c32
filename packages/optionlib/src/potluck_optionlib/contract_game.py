"""A complete `SymbolicGame` out of a `World` and contracts with executors.

Menus are made here, steps in joint_steps.py. Executors fail explicitly when their target has gone (TargetAbsent), when
hands that should carry something are empty (NothingHeld), and when there is no way (NoPath). Before an option begins,
NoPath looks at what is closed and at agents that never move; others are taken to make way, and where it turns out that
none can, the execution ends with NoPath.

Nothing here is random but the tie-break between options that start in the same step, a function of the seed, so a
snapshot is the world's state, the executions and the planners' detour.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from potluck_optionlib.contracts import (
    AWAY,
    NO_PATH,
    NOTHING_HELD,
    TARGET_ABSENT,
    Aim,
    Contract,
    Reach,
    accepts,
)
from potluck_optionlib.errors import ContractError
from potluck_optionlib.executions import NO_FACTS
from potluck_optionlib.game import (
    NOOP,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.joint_steps import JointSteps
from potluck_optionlib.menus import WAIT
from potluck_optionlib.planners import FAR
from potluck_optionlib.world import Look, World

_Offer: TypeAlias = tuple[Contract[Any], Sequence[Instance], list[int]]
"""Instances of a contract, with the distances to them."""
_NOBODY: tuple[int, list[_Offer]] = (-1, [])
_THERE, _ELSEWHERE = {"there": "yes"}, {"there": "no"}


@lru_cache(maxsize=1 << 14)
def _view(stem: str, name: str, look: Look, steps: int) -> ItemView:
    return ItemView(stem, look.text, steps if steps < FAR else -1, look.key or name, look.greedy)


class ContractGame(JointSteps):
    """One running game."""

    def __init__(self, world: World, contracts: Sequence[Contract[Any]]) -> None:
        super().__init__(world, _checked(world, contracts))
        self.reset(0)

    def under(self, contracts: Sequence[Contract[Any]]) -> ContractGame:
        """A game over the same world under other contracts; whichever is played must be reset first."""
        return ContractGame(self.world, contracts)

    def reset(self, seed: int) -> None:
        self._begin_anew(seed)
        self._expansion.still = ()
        self._known = _NOBODY
        """What one agent was offered since the last change."""
        self.world.reset(seed)

    def reseed(self, seed: int) -> None:
        super().reseed(seed)
        self.world.reseed(seed)

    def over(self) -> bool:
        return self.world.over()

    def candidates(self, agent: int) -> Sequence[Instance]:
        return [i for contract in self.contracts.values() for i in contract.instances(self.world, agent)]

    def feasible(self, agent: int, guards: GuardLibrary) -> list[Instance]:
        """Candidates that no guard forbids and the executor accepts now."""
        return [instance for _, offered, _ in self._offers(agent, guards) for instance in offered]

    def entries(self, agent: int, guards: GuardLibrary) -> list[tuple[Instance, ItemView]]:
        """`feasible` with how each instance looks."""
        found: list[tuple[Instance, ItemView]] = []
        for contract, instances, distances in self._offers(agent, guards):
            stem, name = contract.stem, contract.name
            looks = self.world.looks(agent, instances)
            views = [_view(stem, name, look, steps) for look, steps in zip(looks, distances, strict=True)]
            found += zip(instances, views, strict=True)
        return found

    def _offers(self, agent: int, guards: GuardLibrary) -> list[_Offer]:
        """By contract what is feasible, with distances."""
        found: list[_Offer] = []
        for name, contract in self.contracts.items():
            instances = contract.instances(self.world, agent)
            if name == WAIT:
                found.append((contract, instances, self._expansion.distances(agent, contract, instances)))
                continue
            if instances and guards.guards_option(name):
                instances = self._unguarded(agent, contract, instances, guards)
            if instances := self._accepted(agent, contract, instances):
                distances = self._expansion.distances(agent, contract, instances)
                if max(distances) >= FAR:
                    near = [pair for pair in zip(instances, distances, strict=True) if pair[1] < FAR]
                    instances, distances = [instance for instance, _ in near], [steps for _, steps in near]
                if instances:
                    found.append((contract, instances, distances))
        self._known = agent, found
        return found

    def _unguarded(
        self, agent: int, contract: Contract[Any], instances: Sequence[Instance], guards: GuardLibrary
    ) -> Sequence[Instance]:
        """Instances of a contract that no guard forbids."""
        name, theres = contract.name, self._expansion.theres(agent, contract, instances)
        if contract.reads != ("there",) or None in theres:
            return [i for i in instances if not guards.forbids(name, self.features(agent, i))]
        here, elsewhere = guards.forbids(name, _THERE), guards.forbids(name, _ELSEWHERE)
        return [i for i, there in zip(instances, theres, strict=True) if not (here if there else elsewhere)]

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        reads = self.contracts[instance.option].reads
        if not reads:
            return NO_FACTS
        if reads == ("there",) and (there := self._expansion.there(agent, instance)) is not None:
            return _THERE if there else _ELSEWHERE
        facts = self.facts(agent, instance).all()
        try:
            return {name: facts[name] for name in reads}
        except KeyError as error:
            told = ", ".join(facts)
            raise ContractError(
                f"{instance.option} reads {error.args[0]!r}, which the world does not tell (it tells {told}). "
                "Read one of those, or tell it in World.own or World.about."
            ) from error

    def explicit(self, agent: int, instance: Instance) -> str | None:
        return TARGET_ABSENT if self._absent(agent, instance) else self._refusal(agent, instance)

    def begin(self, agent: int, instance: Instance) -> None:
        super().begin(agent, instance)
        self._known = _NOBODY
        if instance == NOOP or agent in self._expansion.still:
            self._note_still()

    def step(self) -> Step:
        self._known = _NOBODY
        return super().step()

    def restore(self, snapshot: object) -> None:
        self._known = _NOBODY
        super().restore(snapshot)
        self._note_still()

    def state_bytes(self) -> bytes:
        return self.world.state_bytes()

    def rules(self, agent: int) -> str:
        return self.world.rules(agent)

    def observe(self, agent: int) -> Observation:
        return self.world.observe(agent)

    def view(self, agent: int, instance: Instance) -> ItemView:
        contract, distance = self.contracts[instance.option], self._offered_at(agent, instance)
        if distance is None:
            distance = self._expansion.distance(agent, instance)
        return _view(contract.stem, contract.name, self.world.look(agent, instance), distance)

    def scene(self) -> Scene:
        return self.world.scene()

    def sprites(self) -> Sequence[Sprite]:
        poses = [(seat, self.world.pose(seat)) for seat in self._seats if not self.world.away(seat)]
        agents = [Sprite("agent", p.x, p.y, p.facing, seat, self.world.held(seat)) for seat, p in poses]
        return [*self.world.sprites(), *agents]

    def _accepted(self, agent: int, contract: Contract[Any], instances: Sequence[Instance]) -> Sequence[Instance]:
        """Instances of an option other than `wait` that the executor accepts, but for the way there."""
        if not instances or self.world.away(agent) or self._lacks(agent, contract):
            return ()
        if contract.explicit is accepts:
            return instances
        return [instance for instance in instances if not contract.explicit(self.world, agent, instance)]

    def _lacks(self, agent: int, contract: Contract[Any]) -> bool:
        """Are its hands empty that should carry something?"""
        executor = contract.executor
        return isinstance(executor, Reach) and executor.carrying and not self.world.held(agent)

    def _offered_at(self, agent: int, instance: Instance) -> int | None:
        """The distance at which an instance was just offered to an agent, whose executor accepts it then."""
        whose, known = self._known
        if whose == agent:
            for contract, instances, distances in known:
                if contract.name == instance.option and instance in instances:
                    return distances[instances.index(instance)]
        return None

    def _offered(self, agent: int, instance: Instance) -> bool:
        if self._offered_at(agent, instance) is not None:
            return True
        contract = self.contracts.get(instance.option)
        return contract is not None and instance in contract.instances(self.world, agent)

    def _refusal(self, agent: int, instance: Instance) -> str | None:
        """Why the executor cannot begin, its target being there."""
        if instance.option != WAIT and self._offered_at(agent, instance) is not None:
            return None
        contract = self.contracts[instance.option]
        if self.world.away(agent):
            return None if instance.option == WAIT else AWAY
        if self._lacks(agent, contract):
            return NOTHING_HELD
        reason = contract.explicit(self.world, agent, instance)
        if reason:
            return reason
        return NO_PATH if self._expansion.distance(agent, instance) >= FAR else None

    def _note_still(self) -> None:
        running = enumerate(self._running)
        self._expansion.still = tuple([seat for seat, now in running if now is not None and now.instance == NOOP])

    def _lot(self, agent: int) -> int:
        lot = hashlib.blake2b(f"{self._seed}/{self._steps}/{agent}".encode(), digest_size=4).digest()
        return int.from_bytes(lot, "big")


def _checked(world: World, contracts: Sequence[Contract[Any]]) -> Mapping[str, Contract[Any]]:
    """The contracts by name, `wait` last. Raises ContractError."""
    by_name = {contract.name: contract for contract in contracts}
    if len(by_name) < len(contracts):
        raise ContractError("Two contracts have one name. Rename one of them.")
    if WAIT not in by_name:
        raise ContractError("There is no option `wait`. Add contracts.waiting() to the contracts.")
    known = set(world.primitives)
    for contract in contracts:
        if contract.executor is None:
            cure = "Give it Reach, Stand, Aim, Enter, Idle or a function"
            raise ContractError(f"{contract.name} has no executor. {cure}.")
        if isinstance(contract.executor, (Reach, Aim)) and contract.executor.primitive not in known:
            names = ", ".join(world.primitives)
            raise ContractError(f"{contract.name} plays {contract.executor.primitive!r}; the primitives are {names}.")
    moves = {way.primitive for ways in world.motion.ways.values() for way in ways} | {world.motion.stay}
    if moves - known:
        raise ContractError(f"World.motion moves by {', '.join(sorted(moves - known))}; list them in World.primitives.")
    return {**{name: c for name, c in by_name.items() if name != WAIT}, WAIT: by_name[WAIT]}
