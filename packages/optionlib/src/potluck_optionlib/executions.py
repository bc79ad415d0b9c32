"""What games behind contracts keep of an option under way, of one step, and of a whole game; how effects are judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from potluck_optionlib.contracts import Change, Contract
from potluck_optionlib.game import Ended, Instance
from potluck_optionlib.planners import Detour, Pose, Walker, Wish

NO_FACTS: Mapping[str, str] = {}
_FIXED = Wish.FIXED


class Execution(NamedTuple):
    """An option under way."""

    instance: Instance
    start: int
    rank: tuple[int, int]
    features: Mapping[str, str]
    failed: str = ""
    """Outcome that it ends with after this step."""
    grants: int = 0

    def late(self, timeout: int, now: int) -> str:
        """ "timeout" once it has gone on for so many steps, else ""."""
        return "timeout" if now - self.start >= timeout else ""

    def ended(
        self, seat: int, outcome: str, now: int, changed: bool | None = None, own_changed: bool | None = None
    ) -> Ended:
        """Its record, after the step that ended it."""
        return Ended(seat, self.instance, outcome, self.start, now - self.start, self.features, changed, own_changed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a continuation depends on."""

    world: Any
    executions: tuple[Execution | None, ...]
    steps: int
    seed: int
    detour: Detour | None = None


class Facts(NamedTuple):
    """The facts around an execution, by whose they are."""

    own: Mapping[str, str]
    target: Mapping[str, str]

    def all(self) -> Mapping[str, str]:
        return {**self.own, **self.target}


class Turn(Walker):
    """One agent's part in a step: what it wants, for the planners and beyond them."""

    __slots__ = ("act", "acts_last", "away", "before", "contract", "execution", "goal", "last", "primitive", "stood")

    def __init__(self, execution: Execution, contract: Contract[Any] | None, stood: Pose | None, pose: int) -> None:
        """`stood`, with its index `pose`: where the agent stands, unless it is away."""
        self.wish, self.pose, self.target, self.adjacent = _FIXED, pose, -1, True
        self.rank, self.grants = execution.rank, execution.grants
        self.execution = execution
        self.contract = contract
        """Its option's; None where it plays a primitive, or nothing."""
        self.primitive = ""
        self.last = False
        """What it plays now is what the effect is judged around."""
        self.act = ""
        """What it plays if the plan lets it act."""
        self.acts_last = True
        """Is that what the effect is judged around?"""
        self.goal: Collection[tuple[int, int]] = ()
        """Cells that end the execution once one is entered."""
        self.away = stood is None
        self.stood = stood
        self.before: Facts | None = None

    def fail(self, outcome: str) -> None:
        """The execution ends so after this step."""
        self.execution = self.execution._replace(failed=outcome)


def judge(contract: Contract[Any], change: Change) -> str:
    """The outcome that the effect predicate gives."""
    try:
        return "success" if contract.effect(change) else "effect_fail"
    except Exception as error:
        return f"raised:{type(error).__name__}"
