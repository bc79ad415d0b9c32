"""What a game gives to the option machinery: engine state, option contracts, executions, pictures.

A `SymbolicGame` is one running game. Burn-in, menus, the env server's episodes and the conformance suite all drive
it through this protocol and nothing else. The caller owns decisions; the game owns the engine and carries options out:

    game.reset(seed)
    while game.steps < horizon:
        for agent in game.idle():                       # agents without an option under way
            game.begin(agent, choice among game.candidates(agent))
        step = game.step()                              # plans all agents jointly, advances one primitive step

Agents are seat numbers here; names appear at the wire. y grows downwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable


class Activity(StrEnum):
    """What an agent did in a step."""

    MOVE = "move"
    INTERACT = "interact"
    WAIT = "wait"
    BLOCKED = "blocked"
    NOOP = "noop"


class Instance(NamedTuple):
    """An option type bound to one target."""

    option: str
    target: str = ""
    """Canonical target text such as "(4,2)", empty for options without a target."""


NOOP = Instance("noop")
"""What a seat played by the `noop` baseline executes; never offered in a menu and never ends."""


class ItemView(NamedTuple):
    """How an instance looks to an agent; see potluck.common.v1.Item."""

    stem: str
    """Word of the option type under the words scheme, e.g. "onion"."""
    text: str
    steps: int
    action_key: str
    greedy: float


class Observation(NamedTuple):
    """What an agent is told beside rules, memory and menu."""

    text: str
    state_key: str


class AgentStep(NamedTuple):
    """One agent after one primitive step."""

    x: int
    y: int
    facing: str
    primitive: str
    held: str
    activity: Activity


class Event(NamedTuple):
    """Something worth counting; see potluck.env.v1.Event for the meaning of the fields."""

    kind: str
    agent: int
    """Who did it; -1 where nobody did."""
    object: str = ""
    place: str = ""
    x: int = -1
    y: int = -1
    from_agent: int = -1
    parts: tuple[str, ...] = ()
    reward: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """An option execution that ended with this step."""

    agent: int
    instance: Instance
    outcome: str
    """ "success", "effect_fail", "timeout", "explicit:<reason>" or "raised:<exception's type>"."""
    start_step: int
    duration: int
    features: Mapping[str, str] = field(default_factory=dict)
    """The declared read set at initiation."""
    changed: bool | None = None
    """Did any fact that the effect predicate sees change around the last primitive? None = not told."""
    own_changed: bool | None = None
    """Did a fact of the actor's own change around the last primitive? None = not told."""


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive step of all agents."""

    reward: float
    """Team reward in the game's unit (soups, apples)."""
    agent_rewards: tuple[float, ...]
    agents: tuple[AgentStep, ...]
    events: tuple[Event, ...]
    ended: tuple[Ended, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """The fixed part of a picture: tile names row by row."""

    width: int
    height: int
    tiles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sprite:
    """A thing to draw; see potluck.env.v1.Sprite."""

    kind: str
    x: float
    y: float
    facing: str = ""
    seat: int = -1
    held: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class GameSpec:
    """A game as its server lists it; see potluck.env.v1.GameInfo."""

    name: str
    agents: int
    default_horizon: int
    engine: str
    dynamics: str
    reward_unit: str
    options: tuple[str, ...]


class SymbolicGame(Protocol):
    """One running game behind options. Not thread-safe; exact and deterministic given the seed and the choices."""

    @property
    def spec(self) -> GameSpec: ...

    @property
    def contracts_digest(self) -> str:
        """sha256 over the option contracts as data (not over guards)."""
        ...

    @property
    def solo_only(self) -> frozenset[str]:
        """Option types whose effects only solo records can attribute (no private transition)."""
        ...

    @property
    def steps(self) -> int:
        """Primitive steps since reset."""
        ...

    def reset(self, seed: int) -> None:
        """Begins a new episode; all randomness of engine and planner comes from `seed`."""
        ...

    def reseed(self, seed: int) -> None:
        """Replaces the randomness of everything that follows."""
        ...

    def idle(self) -> tuple[int, ...]:
        """Agents without an option under way, in seat order."""
        ...

    def candidates(self, agent: int) -> Sequence[Instance]:
        """The unguarded menu: every instance whose target exists, `wait` included and last."""
        ...

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        """The option's declared read set in the present state. Never changed after; equal ones may be shared."""
        ...

    def explicit(self, agent: int, instance: Instance) -> str | None:
        """The explicit failure that the executor would give right now ("NoPath", ...), or None."""
        ...

    def begin(self, agent: int, instance: Instance) -> None:
        """Starts an option. Raises ValueError if the agent is busy or the instance is no candidate (or NOOP)."""
        ...

    def step(self) -> Step:
        """Advances one primitive step. Raises ValueError if an agent is idle."""
        ...

    def snapshot(self) -> object:
        """The whole state: engine, options under way, randomness, object identities."""
        ...

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot, exactly; the snapshot can be restored again."""
        ...

    def state_bytes(self) -> bytes:
        """Canonical bytes of the engine's state, for trajectory digests."""
        ...

    def rules(self, agent: int) -> str:
        """The fixed prompt part of a seat: game, layout, goal. The same in every episode."""
        ...

    def observe(self, agent: int) -> Observation:
        """The present state as an agent sees it."""
        ...

    def view(self, agent: int, instance: Instance) -> ItemView:
        """How an instance looks in the present state."""
        ...

    def scene(self) -> Scene:
        """The fixed picture."""
        ...

    def sprites(self) -> Sequence[Sprite]:
        """The moving picture."""
        ...


@runtime_checkable
class EndingGame(Protocol):
    """What a game may have besides: an end of its own before the horizon."""

    def over(self) -> bool:
        """Has the episode ended? Nothing may be begun or stepped then."""
        ...


class GameProvider(Protocol):
    """An entry point of the group `potluck.games`: all games of one engine."""

    def names(self) -> Sequence[str]:
        """Full names, e.g. "overcooked/forced_coordination"."""
        ...

    def make(self, name: str) -> SymbolicGame:
        """A fresh game. Raises KeyError with the known names for an unknown one."""
        ...

    def guards(self, name: str) -> str:
        """The shipped guard library of a game as JSON text (see guards.py), or "" where none ships."""
        ...
