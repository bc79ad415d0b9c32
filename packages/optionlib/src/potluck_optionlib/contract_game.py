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
from typing import Any, TypeAlias

from potluck_optionlib.contracts import (
    AWAY,
    NO_PATH,
    NOTHING_HELD,
    TARGET_ABSENT,
    Aim,
    Contract,
    Enter,
    Reach,
    accepts,
)
from potluck_optionlib.errors import ContractError
from potluck_optionlib.executions import NO_FACTS
from potluck_optionlib.expansion import Outset
from potluck_optionlib.game import (
    NOOP,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)
from potluck_optionlib.guards import NO_GUARDS, GuardLibrary
from potluck_optionlib.joint_steps import JointSteps
from potluck_optionlib.menus import WAIT
from potluck_optionlib.planners import FAR
from potluck_optionlib.world import World, seen

_Offers: TypeAlias = dict[str, tuple[Sequence[Instance], Sequence[int]]]
"""By option: instances, with the distances to them."""
_NOBODY: tuple[int, _Offers] = (-1, {})
_THERE, _ELSEWHERE = {"there": "yes"}, {"there": "no"}


class ContractGame(JointSteps):
    """One running game."""

    def __init__(self, world: World, contracts: Sequence[Contract[Any]]) -> None:
        super().__init__(world, _checked(world, contracts))
        self._verdicts: tuple[GuardLibrary, dict[str, tuple[bool, bool]]] = (NO_GUARDS, {})
        """What guards say of options that read `there` alone: is it forbidden there, and elsewhere?"""
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
        return [instance for offered, _ in self._offers(agent, guards).values() for instance in offered]

    def entries(self, agent: int, guards: GuardLibrary) -> list[tuple[Instance, ItemView]]:
        """`feasible` with how each instance looks."""
        found: list[tuple[Instance, ItemView]] = []
        for name, (instances, distances) in self._offers(agent, guards).items():
            views = self.world.views(agent, self.contracts[name].stem, instances, distances)
            found += zip(instances, views, strict=True)
        return found

    def _offers(self, agent: int, guards: GuardLibrary) -> _Offers:
        """What is feasible."""
        found: _Offers = {}
        outset = None if self.world.away(agent) else self._expansion.outset(agent)
        for name, contract in self.contracts.items():
            if name == WAIT:
                instances = contract.instances(self.world, agent)
                near = (
                    [0] * len(instances)
                    if outset is None
                    else self._expansion.distances(agent, contract, instances, outset)
                )
                found[name] = instances, near
            elif outset is not None and (instances := self._admitted(agent, contract)):
                offered = self._feasible(agent, contract, instances, guards, outset)
                if offered[0]:
                    found[name] = offered
        self._known = agent, found
        return found

    def _admitted(self, agent: int, contract: Contract[Any]) -> Sequence[Instance]:
        """What the executor of an option other than `wait` accepts, but for the way; the agent is not away."""
        instances = contract.instances(self.world, agent)
        if not instances or self._lacks(agent, contract):
            return ()
        if contract.explicit is accepts:
            return instances
        return [instance for instance in instances if not contract.explicit(self.world, agent, instance)]

    def _feasible(
        self, agent: int, contract: Contract[Any], instances: Sequence[Instance], guards: GuardLibrary, outset: Outset
    ) -> tuple[Sequence[Instance], Sequence[int]]:
        """Instances of a contract that no guard forbids and that can be got to, with distances."""
        here = elsewhere = False
        if guards.guards_option(contract.name):
            if contract.reads == ("there",) and isinstance(contract.executor, Enter):
                here, elsewhere = self._verdict(contract.name, guards)
            else:
                instances = [i for i in instances if not guards.forbids(contract.name, self.features(agent, i))]
        distances = self._expansion.distances(agent, contract, instances, outset)
        if not (here or elsewhere) and max(distances, default=0) < FAR:
            return instances, distances
        kept, near = [], []
        for place, steps in enumerate(distances):
            # One is in an area that is no steps away.
            if steps < FAR and not (elsewhere if steps else here):
                kept.append(instances[place])
                near.append(steps)
        return kept, near

    def _verdict(self, name: str, guards: GuardLibrary) -> tuple[bool, bool]:
        """Do guards forbid an option there, and elsewhere?"""
        of, verdicts = self._verdicts
        if of is not guards:
            self._verdicts = guards, verdicts = guards, {}
        verdict = verdicts.get(name)
        if verdict is None:
            verdict = verdicts[name] = guards.forbids(name, _THERE), guards.forbids(name, _ELSEWHERE)
        return verdict

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
        steps = distance if distance < FAR else -1
        return seen(contract.stem, contract.name, self.world.look(agent, instance), steps)

    def scene(self) -> Scene:
        return self.world.scene()

    def sprites(self) -> Sequence[Sprite]:
        poses = [(seat, self.world.pose(seat)) for seat in self._seats if not self.world.away(seat)]
        agents = [Sprite("agent", p.x, p.y, p.facing, seat, self.world.held(seat)) for seat, p in poses]
        return [*self.world.sprites(), *agents]

    def _lacks(self, agent: int, contract: Contract[Any]) -> bool:
        """Are its hands empty that should carry something?"""
        executor = contract.executor
        return isinstance(executor, Reach) and executor.carrying and not self.world.held(agent)

    def _offered_at(self, agent: int, instance: Instance) -> int | None:
        """The distance at which an instance was just offered to an agent, whose executor accepts it then."""
        whose, known = self._known
        if whose == agent and instance.option in known:
            instances, distances = known[instance.option]
            return distances[instances.index(instance)] if instance in instances else None
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
