"""What all games behind option contracts keep alike: what is under way since when, how it begins, forks, native play.

A subclass owns the world that its contracts ask, and steps it. How options that start in one step are ranked (`_lot`)
is its own, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from potluck_optionlib.contracts import Contract, contracts_digest
from potluck_optionlib.executions import NO_FACTS, Execution, Snapshot
from potluck_optionlib.game import NOOP, GameSpec, Instance
from potluck_optionlib.planners import Detour

PRIMITIVE = "primitive"
"""Option name of an engine primitive as an instance; its target is the primitive's name."""


class Forkable(Protocol):
    """What a world has, whatever else it is."""

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any) -> None: ...


class OptionGame:
    """The part of `SymbolicGame` that does not depend on the world."""

    def __init__(
        self,
        world: Forkable,
        spec: GameSpec,
        contracts: Mapping[str, Contract[Any]],
        primitives: Collection[str],
        digest: str = "",
    ) -> None:
        """`contracts` by name, `wait` last; `digest` is theirs, where it is known."""
        self.contracts = contracts
        self._forkable, self._spec = world, spec
        self._digest = digest or contracts_digest(contracts.values())
        self._solo_only = frozenset(name for name, contract in contracts.items() if contract.solo_only)
        self._natives = tuple(Instance(PRIMITIVE, name) for name in primitives)
        self._seats = range(spec.agents)
        self._seed = self._steps = 0
        self._detour: Detour | None = None
        self._running: list[Execution | None] = [None] * spec.agents

    @property
    def spec(self) -> GameSpec:
        return self._spec

    @property
    def contracts_digest(self) -> str:
        return self._digest

    @property
    def solo_only(self) -> frozenset[str]:
        return self._solo_only

    @property
    def steps(self) -> int:
        return self._steps

    def reseed(self, seed: int) -> None:
        self._seed = seed

    def idle(self) -> tuple[int, ...]:
        return tuple([seat for seat in self._seats if self._running[seat] is None])

    def primitives(self, agent: int) -> Sequence[Instance]:
        return self._natives

    def candidates(self, agent: int) -> Sequence[Instance]:
        raise NotImplementedError

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        raise NotImplementedError

    def explicit(self, agent: int, instance: Instance) -> str | None:
        raise NotImplementedError

    def begin(self, agent: int, instance: Instance) -> None:
        running = self._running[agent]
        if running is not None and running.instance != NOOP:
            raise ValueError(f"agent {agent} has an option under way")
        rank = (self._steps, self._lot(agent))
        if instance == NOOP or (instance.option == PRIMITIVE and instance in self._natives):
            self._running[agent] = Execution(instance, self._steps, rank, NO_FACTS)
            return
        if not self._offered(agent, instance):
            raise ValueError(f"{instance.option}@{instance.target} is no candidate of agent {agent}")
        features = self.features(agent, instance)
        failed = self._refusal(agent, instance)
        self._running[agent] = Execution(instance, self._steps, rank, features, f"explicit:{failed}" if failed else "")

    def snapshot(self) -> Snapshot:
        return Snapshot(self._forkable.snapshot(), tuple(self._running), self._steps, self._seed, self._detour)

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, Snapshot):
            raise ValueError("not a snapshot of this game")
        self._forkable.restore(snapshot.world)
        self._running = list(snapshot.executions)
        self._steps, self._seed, self._detour = snapshot.steps, snapshot.seed, snapshot.detour

    def _begin_anew(self, seed: int) -> None:
        """The clock at 0, nothing under way."""
        self._seed, self._steps, self._detour = seed, 0, None
        self._running = [None] * self._spec.agents

    def _underway(self) -> list[Execution]:
        """What every seat is at. Raises ValueError where one has nothing to do."""
        running = [execution for execution in self._running if execution is not None]
        if len(running) != len(self._running):
            raise ValueError(f"agents {self.idle()} have nothing to do")
        return running

    def _offered(self, agent: int, instance: Instance) -> bool:
        """Is it a candidate?"""
        return instance in self.candidates(agent)

    def _refusal(self, agent: int, instance: Instance) -> str | None:
        """Why the executor of a candidate cannot begin."""
        return self.explicit(agent, instance)

    def _lot(self, agent: int) -> int:
        """Tie-break between options that start in this step."""
        raise NotImplementedError
