"""Typed option contracts: what an option author writes down, with a digest over everything that is data.

A contract has four parts. *Instantiation* says which targets exist (no strategy, no state-conditional gating). The
*executor* turns the option into primitives and may fail explicitly, only for reasons of the expansion itself. The
*termination* is the executor's end or the time-out. The *effect predicate* looks at the change of the state around
the last primitive and is true iff the execution did what its name promises. The *read set* bounds what guards see.

Executors are data: `Reach` (plan to a pose beside or on the target, then play one primitive), `Stand` (be on the
target), `Aim` (plan to one of the poses that the world names, then play one primitive), `Enter` (be in an area), `Idle`
(stay), or a function of the author's that says each step's primitive. `ContractGame` carries them out; a game with a
runner of its own leaves `executor` None.

`W` is the game's own world type; hooks get it first. Nothing here knows any game.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from potluck_optionlib.game import Instance
from potluck_optionlib.planners import Pose

W = TypeVar("W")

NO_PATH, NOTHING_HELD, TARGET_ABSENT, AWAY = "NoPath", "NothingHeld", "TargetAbsent", "Away"
"""The explicit failures of executors: reasons of the expansion itself, never of strategy."""

_NUMBER = re.compile(r"-?\d+")


class Change(NamedTuple):
    """The facts around an execution's last primitive, as the effect predicate sees them."""

    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reach:
    """Goes where the target can be acted on, then plays `primitive`, once; the effect is judged around that step."""

    primitive: str
    adjacent: bool = True
    """Beside the target and facing it (where agents face anything); False: standing on it."""
    carrying: bool = False
    """Fails with NothingHeld where the agent's hands are empty at the start."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Goes to the target's cell and ends there; the effect is judged around the last step."""


@dataclass(frozen=True)
class Aim(Generic[W]):
    """Goes to the first of the poses that `poses` names and that can be reached, then plays `primitive`, once.

    The poses are asked for in each step, as what a tool or a beam hits may change on the way; one without a facing is
    reached with its cell. Name the nearest first. Where there is none, the executor fails with NoPath.
    """

    primitive: str
    poses: Callable[[W, int, Instance], Iterable[Pose]]
    ready: Callable[[W, int], bool] = lambda world, agent: True
    """False: the agent waits in the pose, such as for a tool that cools down."""
    distances: Callable[[W, int, Sequence[Instance]], list[int]] | None = None
    """Primitives to the first pose of each instance where nothing is closed and nobody stands still, FAR for none: for
    worlds that know these without a search. Menus ask for them."""


@dataclass(frozen=True)
class Enter(Generic[W]):
    """Goes to the nearest cell of an area and ends there; the effect is judged around the last step.

    An area belongs to its instance and never changes. The fact `there` tells whether the agent is in it.
    """

    area: Callable[[W, int, Instance], Collection[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Idle:
    """Stays, and makes way when asked, for this many steps."""

    steps: int = 3


class Act(NamedTuple):
    """What an executor of the author's own does in one step."""

    primitive: str
    last: bool = False
    """This primitive is the one that the effect is judged around; the execution ends with it."""


Executor: TypeAlias = Reach | Stand | Aim[W] | Enter[W] | Idle | Callable[[W, int, Instance], Act]
"""How an option becomes primitives. A function gets world, agent and instance, once a step."""


@dataclass(frozen=True)
class Contract(Generic[W]):
    """One option type."""

    name: str
    stem: str
    """Word of the type under the words scheme."""
    reads: tuple[str, ...]
    """Features that guards may look at; see `features`."""
    timeout: int
    """Primitive steps after which an execution ends as "timeout"."""
    solo_only: bool
    """True where the effect has no private part, so that only solo records can tell who caused it."""
    promise: str
    """The effect predicate in words; part of the digest."""
    failures: tuple[str, ...]
    """Explicit failures that the executor may give."""
    instances: Callable[[W, int], Sequence[Instance]]
    """Every target that exists for the agent."""
    explicit: Callable[[W, int, Instance], str | None]
    """The explicit failure that the executor would give now."""
    effect: Callable[[Change], bool]
    """Did the execution do what its name promises?"""
    executor: Executor[W] | None = None
    """How `ContractGame` carries the option out; None in games with a runner of their own."""
    present: Callable[[W, int, Instance], bool] | None = None
    """Is the target of an option under way still there? By default, whether it is among the instances; told apart where
    those are bounded (within reach) or many."""

    def data(self) -> dict[str, Any]:
        """What the digest covers: everything that is not code."""
        executor = {} if self.executor is None else {"executor": _executor_data(self.executor)}
        return executor | {
            "name": self.name,
            "stem": self.stem,
            "reads": list(self.reads),
            "timeout": self.timeout,
            "solo_only": self.solo_only,
            "promise": self.promise,
            "failures": list(self.failures),
        }


def option(
    name: str,
    *,
    instances: Callable[[Any, int], Sequence[Instance]],
    executor: Executor[Any],
    effect: Callable[[Change], bool],
    promise: str,
    reads: tuple[str, ...] = (),
    stem: str = "",
    timeout: int = 40,
    solo_only: bool = False,
    present: Callable[[Any, int, Instance], bool] | None = None,
    failures: tuple[str, ...] = (),
) -> Contract[Any]:
    """A contract for `ContractGame`, which finds the executors' own failures by itself.

    `failures`: further ones, `AWAY` where agents may leave the map.
    """
    return Contract(
        name,
        stem or name,
        reads,
        timeout,
        solo_only,
        promise,
        (*_failures(executor), *failures),
        instances,
        accepts,
        effect,
        executor,
        present,
    )


def waiting(steps: int = 3, name: str = "wait") -> Contract[Any]:
    """The contract of `wait`, which every game has."""
    return option(
        name,
        instances=lambda world, agent: (Instance(name),),
        executor=Idle(steps),
        effect=lambda change: True,
        promise=f"stays for {steps} steps",
        timeout=steps,
    )


def accepts(world: Any, agent: int, instance: Instance) -> str | None:
    """No explicit failure but those that `ContractGame` finds by itself."""
    return None


def _failures(executor: Executor[Any]) -> tuple[str, ...]:
    if isinstance(executor, Reach):
        return (NOTHING_HELD, TARGET_ABSENT, NO_PATH) if executor.carrying else (TARGET_ABSENT, NO_PATH)
    return (TARGET_ABSENT, NO_PATH) if isinstance(executor, (Stand, Aim, Enter)) else ()


def _executor_data(executor: Executor[Any]) -> dict[str, Any]:
    if isinstance(executor, (Reach, Stand, Idle)):
        return {"kind": type(executor).__name__.lower(), **asdict(executor)}
    if isinstance(executor, Aim):
        return {"kind": "aim", "primitive": executor.primitive}
    return {"kind": "enter" if isinstance(executor, Enter) else "own"}


def contracts_digest(contracts: Iterable[Contract[Any]]) -> str:
    """sha256 over the contracts as data, in order."""
    return hashlib.sha256(canonical_json([contract.data() for contract in contracts])).hexdigest()


def canonical_json(value: object) -> bytes:
    """The one byte form of a JSON value that digests are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


@lru_cache(maxsize=4096)
def map_order(target: str) -> tuple[tuple[int, ...], str]:
    """Sort key of targets in reading order: "(x,y)" by y, then x; anything else by its numbers and text."""
    return tuple(int(n) for n in reversed(_NUMBER.findall(target))), target
