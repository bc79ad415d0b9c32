"""A joint step of agents with options under way: what each wants, who moves how, and what the step came to.

A step asks each agent's option what it wants (go, act, hold), lets the planners settle who moves how, plays one
primitive per agent on the world, and ends options whose last primitive was played, with the effect judged on the
facts around it. Code of the author's own that raises ends its option with "raised:<type>", counted like any outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from potluck_optionlib.contracts import (
    AWAY,
    NO_PATH,
    TARGET_ABSENT,
    Act,
    Aim,
    Change,
    Contract,
    Idle,
    Reach,
)
from potluck_optionlib.errors import ContractError
from potluck_optionlib.executions import NO_FACTS, Execution, Facts, Turn, judge
from potluck_optionlib.expansion import Expansion
from potluck_optionlib.game import NOOP, Activity, AgentStep, Ended, GameSpec, Instance, Step
from potluck_optionlib.option_game import OptionGame
from potluck_optionlib.planners import ACT, STAY, Field, Grid, Motion, Pose, Wish, plan
from potluck_optionlib.world import Cell, World

_FIXED, _HOLD = Wish.FIXED, Wish.HOLD
_INTERACT, _MOVE, _WAIT, _BLOCKED, _NOOP = (
    Activity.INTERACT,
    Activity.MOVE,
    Activity.WAIT,
    Activity.BLOCKED,
    Activity.NOOP,
)
_new = tuple.__new__


@lru_cache(maxsize=64)
def _grid(floor: frozenset[Cell], motion: Motion) -> Grid:
    return Grid(floor, motion)


class JointSteps(OptionGame):
    """The part of a game over a `World` that carries options out."""

    def __init__(self, world: World, contracts: Mapping[str, Contract[Any]]) -> None:
        self.world = world
        self.grid = _grid(frozenset(world.floor()), world.motion)
        self._expansion = Expansion(world, contracts, self.grid)
        spec = GameSpec(
            world.name, world.agents, world.horizon, world.engine, world.dynamics, world.reward_unit, tuple(contracts)
        )
        super().__init__(world, spec, contracts, world.primitives)

    def step(self) -> Step:
        field, stood = self._expansion.common_field(), self.world.standing()
        turns = [self._turn(seat, execution, stood[seat], field) for seat, execution in enumerate(self._underway())]
        self._plan(turns)
        outcome = self.world.step([turn.primitive for turn in turns])
        self._steps += 1
        ended = []
        for seat, turn in enumerate(turns):
            contract, execution = turn.contract, turn.execution
            goes_on = contract is not None and turn.before is None and not execution.failed
            late = contract is not None and self._steps - execution.start >= contract.timeout
            end = None if goes_on and not late else self._end(seat, turn)
            if turn.grants != turn.execution.grants:
                turn.execution = turn.execution._replace(grants=turn.grants)
            self._running[seat] = None if end else turn.execution
            ended += [end] if end else []
        stand = self.world.standing()
        agents = tuple([self._agent_step(seat, turn, stand[seat]) for seat, turn in enumerate(turns)])
        return Step(sum(outcome.rewards), outcome.rewards, agents, outcome.events, tuple(ended))

    def facts(self, agent: int, instance: Instance) -> Facts:
        """What effects and guards may know now."""
        own = {"held": self.world.held(agent) or "none", **self.world.own(agent)}
        if (there := self._expansion.there(agent, instance)) is not None:
            own["there"] = "yes" if there else "no"
        if not instance.target:
            return Facts(own, NO_FACTS)
        about = self.world.about(instance)
        if not own.keys().isdisjoint(about):
            clash = ", ".join(sorted(own.keys() & about.keys()))
            raise ContractError(f"World.own and World.about both tell {clash}. Rename one of them.")
        return Facts(own, about)

    def _absent(self, agent: int, instance: Instance) -> bool:
        """Has the target of an option that was begun gone?"""
        contract = self.contracts[instance.option]
        if contract.present is not None:
            return not contract.present(self.world, agent, instance)
        return instance not in contract.instances(self.world, agent)

    def _turn(self, seat: int, execution: Execution, stood: Pose | None, field: Field | None) -> Turn:
        """What an agent wants of this step. `field`: the tables for it, where they are the same for everybody."""
        world, instance = self.world, execution.instance
        contract = self.contracts.get(instance.option)
        turn = Turn(execution, contract, stood, -1 if stood is None else self.grid.pose(stood))
        if contract is None:
            turn.primitive = instance.target or world.motion.stay
            return turn
        turn.wish = _HOLD
        if execution.failed:
            return turn
        if self._absent(seat, instance):
            turn.fail(f"explicit:{TARGET_ABSENT}")
            return turn
        executor = contract.executor
        if isinstance(executor, Idle):
            turn.last = self._steps + 1 - execution.start >= executor.steps
        elif stood is None:
            turn.fail(f"explicit:{AWAY}")
        elif not self._expansion.send(seat, turn, field) and callable(executor):
            self._ask(seat, turn, executor)
        return turn

    def _ask(self, seat: int, turn: Turn, executor: Callable[[Any, int, Instance], Act]) -> None:
        """The author's own executor says what it plays."""
        turn.wish = _FIXED
        try:
            turn.primitive, turn.last = executor(self.world, seat, turn.execution.instance)
            if turn.primitive not in self.world.primitives:
                raise ContractError(
                    f"{turn.execution.instance.option} plays {turn.primitive!r}, which is no primitive."
                )
        except Exception as error:
            turn.fail(f"raised:{type(error).__name__}")
            turn.primitive, turn.last = self.world.motion.stay, False

    def _plan(self, turns: Sequence[Turn]) -> None:
        """Settles everybody's primitive."""
        here = [turn for turn in turns if not turn.away]
        detour = self._detour if len(here) == len(turns) else None
        joint = plan(self.grid, here, self.world.closed(), detour)
        self._detour = joint.detour if len(here) == len(turns) else None
        if joint.hopeless >= 0:
            here[joint.hopeless].fail(f"explicit:{NO_PATH}")
        ways, stay, tries = iter(joint.ways), self.world.motion.stay, self.grid.tries
        for seat, turn in enumerate(turns):
            way = STAY if turn.away else next(ways)
            enters = False
            if way == ACT:
                turn.primitive, turn.last = turn.act, turn.acts_last
            elif not turn.primitive and not turn.away:
                turn.primitive, cell = tries[turn.pose][way]
                enters = cell in turn.goal
            if (turn.last or enters) and not turn.away and turn.contract is not None and not turn.execution.failed:
                turn.before = self.facts(seat, turn.execution.instance)
            turn.primitive = turn.primitive or stay

    def _end(self, seat: int, turn: Turn) -> Ended | None:
        """How the execution ended with this step, if it did."""
        execution, contract = turn.execution, turn.contract
        if contract is None:
            return None if execution.instance == NOOP else execution.ended(seat, "success", self._steps)
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

    def _agent_step(self, seat: int, turn: Turn, stands: Pose | None) -> AgentStep:
        """`stands`: where the agent is after the step, unless it is away."""
        world, primitive = self.world, turn.primitive
        if turn.last and turn.contract is not None and isinstance(turn.contract.executor, (Reach, Aim)):
            activity = _INTERACT
        elif turn.away or turn.execution.instance == NOOP:
            activity = _NOOP
        elif stands is None or stands != turn.stood:
            activity = _MOVE
        elif turn.wish is _HOLD or primitive == world.motion.stay == turn.execution.instance.target:
            activity = _WAIT
        else:
            activity = _BLOCKED
        return _new(AgentStep, (*(stands or world.pose(seat)), primitive, world.held(seat), activity))
