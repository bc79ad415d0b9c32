"""A complete `SymbolicGame` out of a `World` and contracts with executors.

A step asks each agent's option what it wants (go, act, hold), lets the planners settle who moves how, plays one
primitive per agent on the world, and ends options whose last primitive was played, with the effect judged on the
facts around it. Executors fail explicitly when their target has gone (TargetAbsent), when hands that should carry
something are empty (NothingHeld), and when there is no way (NoPath). Before an option begins, NoPath looks at what is
closed and at agents that never move; others are taken to make way, and where it turns out that none can, the execution
ends with NoPath. Code of the author's own that raises ends its option with "raised:<type>", counted like any outcome.

Nothing here is random but the tie-break between options that start in the same step, a function of the seed, so a
snapshot is the world's state, the executions and the planners' detour.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from potluck_optionlib.contracts import (
    AWAY,
    NO_PATH,
    NOTHING_HELD,
    TARGET_ABSENT,
    Act,
    Aim,
    Change,
    Contract,
    Enter,
    Idle,
    Reach,
    Stand,
    accepts,
)
from potluck_optionlib.errors import ContractError
from potluck_optionlib.executions import NO_FACTS, Execution, Facts, Turn, judge
from potluck_optionlib.expansion import Expansion
from potluck_optionlib.game import (
    NOOP,
    Activity,
    AgentStep,
    Ended,
    GameSpec,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import WAIT
from potluck_optionlib.option_game import OptionGame
from potluck_optionlib.planners import ACT, FAR, Grid, Motion, Walker, Wish, plan
from potluck_optionlib.world import Cell, World

_NOBODY: tuple[int, dict[Instance, int]] = (-1, {})
_THERE, _ELSEWHERE = {"there": "yes"}, {"there": "no"}


@lru_cache(maxsize=64)
def _grid(floor: frozenset[Cell], motion: Motion) -> Grid:
    return Grid(floor, motion)


class ContractGame(OptionGame):
    """One running game."""

    def __init__(self, world: World, contracts: Sequence[Contract[Any]]) -> None:
        named = _checked(world, contracts)
        self.world = world
        self.grid = _grid(frozenset(world.floor()), world.motion)
        self._expansion = Expansion(world, named, self.grid)
        spec = GameSpec(
            world.name, world.agents, world.horizon, world.engine, world.dynamics, world.reward_unit, tuple(named)
        )
        super().__init__(world, spec, named, world.primitives)
        self.reset(0)

    def under(self, contracts: Sequence[Contract[Any]]) -> ContractGame:
        """A game over the same world under other contracts; whichever is played must be reset first."""
        return ContractGame(self.world, contracts)

    def reset(self, seed: int) -> None:
        self._begin_anew(seed)
        self._expansion.still = ()
        self._known = _NOBODY
        """Distances to what one agent was offered since the last change."""
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
        known: dict[Instance, int] = {}
        self._known = (agent, known)
        found: list[Instance] = []
        for name, contract in self.contracts.items():
            instances = contract.instances(self.world, agent)
            if name == WAIT:
                found += instances
                continue
            if guards.guards_option(name):
                instances = [i for i in instances if not guards.forbids(name, self.features(agent, i))]
            if instances := self._accepted(agent, contract, instances):
                distances = self._expansion.distances(agent, contract, instances)
                near = [(i, steps) for i, steps in zip(instances, distances, strict=True) if steps < FAR]
                known.update(near)
                found += [instance for instance, _ in near]
        return found

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

    def facts(self, agent: int, instance: Instance) -> Facts:
        """What effects and guards may know now."""
        own = {"held": self.world.held(agent) or "none", **self.world.own(agent)}
        if (there := self._expansion.there(agent, instance)) is not None:
            own["there"] = "yes" if there else "no"
        if not instance.target:
            return Facts(own, NO_FACTS)
        about = self.world.about(instance)
        if clash := own.keys() & about.keys():
            raise ContractError(f"World.own and World.about both tell {', '.join(sorted(clash))}. Rename one of them.")
        return Facts(own, about)

    def explicit(self, agent: int, instance: Instance) -> str | None:
        return TARGET_ABSENT if self._absent(agent, instance) else self._refusal(agent, instance)

    def begin(self, agent: int, instance: Instance) -> None:
        self._known = _NOBODY
        super().begin(agent, instance)
        if instance == NOOP or agent in self._expansion.still:
            self._note_still()

    def step(self) -> Step:
        self._known = _NOBODY
        turns = [self._turn(seat, execution) for seat, execution in enumerate(self._underway())]
        self._plan(turns)
        outcome = self.world.step([turn.primitive for turn in turns])
        self._steps += 1
        ended = []
        for seat, turn in enumerate(turns):
            end = self._end(seat, turn)
            if turn.walker.grants != turn.execution.grants:
                turn.execution = replace(turn.execution, grants=turn.walker.grants)
            self._running[seat] = None if end else turn.execution
            ended += [end] if end else []
        agents = tuple([self._agent_step(seat, turn) for seat, turn in enumerate(turns)])
        return Step(sum(outcome.rewards), outcome.rewards, agents, outcome.events, tuple(ended))

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
        contract, (text, key, greedy) = self.contracts[instance.option], self.world.look(agent, instance)
        whose, known = self._known
        distance = known.get(instance) if whose == agent else None
        if distance is None:
            distance = self._expansion.distance(agent, instance)
        return ItemView(contract.stem, text, distance if distance < FAR else -1, key or contract.name, greedy)

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

    def _offered(self, agent: int, instance: Instance) -> bool:
        contract = self.contracts.get(instance.option)
        return contract is not None and instance in contract.instances(self.world, agent)

    def _absent(self, agent: int, instance: Instance) -> bool:
        """Has the target of an option that was begun gone?"""
        contract = self.contracts[instance.option]
        if contract.present is not None:
            return not contract.present(self.world, agent, instance)
        return instance not in contract.instances(self.world, agent)

    def _refusal(self, agent: int, instance: Instance) -> str | None:
        """Why the executor cannot begin, its target being there."""
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

    def _turn(self, seat: int, execution: Execution) -> Turn:
        """What an agent wants of this step."""
        away = self.world.away(seat)
        stood = None if away else self.world.pose(seat)
        pose = -1 if stood is None else self.grid.pose(stood)
        walker = Walker(Wish.FIXED, pose, rank=execution.rank, grants=execution.grants)
        turn = Turn(execution, walker, away=away, stood=stood)
        contract = self.contracts.get(execution.instance.option)
        if contract is None:
            turn.primitive = execution.instance.target or self.world.motion.stay
            return turn
        if not execution.failed and self._absent(seat, execution.instance):
            turn.execution = execution = replace(execution, failed=f"explicit:{TARGET_ABSENT}")
        walker.wish = Wish.HOLD
        if execution.failed:
            return turn
        executor = contract.executor
        if isinstance(executor, Idle):
            turn.last = self._steps + 1 - execution.start >= executor.steps
        elif away:
            turn.execution = replace(execution, failed=f"explicit:{AWAY}")
        elif isinstance(executor, (Reach, Stand, Aim, Enter)):
            self._expansion.send(seat, turn, executor)
        elif executor is not None:
            self._ask(seat, turn, executor)
        return turn

    def _ask(self, seat: int, turn: Turn, executor: Callable[[Any, int, Instance], Act]) -> None:
        """The author's own executor says what it plays."""
        turn.walker.wish = Wish.FIXED
        try:
            turn.primitive, turn.last = executor(self.world, seat, turn.execution.instance)
            if turn.primitive not in self.world.primitives:
                raise ContractError(
                    f"{turn.execution.instance.option} plays {turn.primitive!r}, which is no primitive."
                )
        except Exception as error:
            turn.execution = replace(turn.execution, failed=f"raised:{type(error).__name__}")
            turn.primitive, turn.last = self.world.motion.stay, False

    def _plan(self, turns: Sequence[Turn]) -> None:
        """Settles everybody's primitive."""
        here = [seat for seat, turn in enumerate(turns) if not turn.away]
        detour = self._detour if len(here) == len(turns) else None
        joint = plan(self.grid, [turns[seat].walker for seat in here], self.world.closed(), detour)
        self._detour = joint.detour if len(here) == len(turns) else None
        if joint.hopeless >= 0:
            turn = turns[here[joint.hopeless]]
            turn.execution = replace(turn.execution, failed=f"explicit:{NO_PATH}")
        for seat, way in zip(here, joint.ways, strict=True):
            self._choose(seat, turns[seat], way)
        for turn in turns:
            turn.primitive = turn.primitive or self.world.motion.stay

    def _choose(self, seat: int, turn: Turn, way: int) -> None:
        """Settles the primitive, and takes the facts before it where it may be the last."""
        walker, execution = turn.walker, turn.execution
        contract = self.contracts.get(execution.instance.option)
        enters = False
        if way == ACT:
            turn.primitive, turn.last = turn.act, turn.acts_last
        elif not turn.primitive:
            turn.primitive, cell = self.grid.move(walker.pose, way)
            enters = cell in turn.goal
        if contract is not None and not execution.failed and (turn.last or enters):
            turn.before = self.facts(seat, execution.instance)

    def _end(self, seat: int, turn: Turn) -> Ended | None:
        """How the execution ended with this step, if it did."""
        execution, contract = turn.execution, self.contracts.get(turn.execution.instance.option)
        if execution.instance == NOOP:
            return None
        if contract is None:
            return execution.ended(seat, "success", self._steps)
        changed: tuple[bool | None, bool | None] = (None, None)
        outcome = execution.failed
        if not outcome and turn.before is not None:
            after = self.facts(seat, execution.instance)
            if turn.last or after.own.get("there") == "yes":
                outcome = judge(contract, Change(turn.before.all(), after.all()))
                if not isinstance(contract.executor, Idle):
                    changed = (after != turn.before, after.own != turn.before.own)
        outcome = outcome or execution.late(contract.timeout, self._steps)
        return execution.ended(seat, outcome, self._steps, *changed) if outcome else None

    def _agent_step(self, seat: int, turn: Turn) -> AgentStep:
        pose = self.world.pose(seat)
        contract = self.contracts.get(turn.execution.instance.option)
        if contract is not None and turn.last and isinstance(contract.executor, (Reach, Aim)):
            activity = Activity.INTERACT
        elif turn.away or turn.execution.instance == NOOP:
            activity = Activity.NOOP
        elif self.world.away(seat) or pose != turn.stood:
            activity = Activity.MOVE
        elif (
            turn.walker.wish is Wish.HOLD or turn.primitive == self.world.motion.stay == turn.execution.instance.target
        ):
            activity = Activity.WAIT
        else:
            activity = Activity.BLOCKED
        return AgentStep(pose.x, pose.y, pose.facing, turn.primitive, self.world.held(seat), activity)


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
