"""Checks a game: reads its contracts, then plays a few episodes uniformly and watches each state and each ending."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from potluck_optionlib.contracts import Contract
from potluck_optionlib.evidence import EXPLICIT, SUCCESS
from potluck_optionlib.game import Ended, Instance, SymbolicGame
from potluck_optionlib.validation.faults import Fault, Rule
from potluck_optionlib.validation.static import static_faults
from potluck_optionlib.validation.targets import Targets

EPISODES = 6


@runtime_checkable
class ContractedGame(Protocol):
    """A game that shows its contracts by name."""

    @property
    def contracts(self) -> Mapping[str, Contract[Any]]: ...


def check(game: SymbolicGame, episodes: int = EPISODES, seed: int = 0) -> tuple[Fault, ...]:
    """All that is wrong, as far as reading the contracts and `episodes` random episodes show.

    A game that does not show its contracts (no attribute `contracts`) is only watched. Effects can be judged where the
    game tells what changed (`Ended.changed`, `Ended.own_changed`).
    """
    contracts: Mapping[str, Contract[Any]] = game.contracts if isinstance(game, ContractedGame) else {}
    partner = frozenset(getattr(game, "partner_features", ()))
    found = list(static_faults(contracts, game.contracts_digest, partner)) if contracts else []
    watch = _Watch(game, contracts)
    for episode in range(episodes):
        watch.play(seed + episode)
    return tuple(_first([*found, *watch.faults()]))


def _first(faults: Sequence[Fault]) -> Iterator[Fault]:
    """One fault for each rule, option and field."""
    seen = set()
    for fault in faults:
        key = (fault.rule, fault.option, fault.field, fault.seen if fault.rule is Rule.READS else "")
        if key not in seen:
            seen.add(key)
            yield fault


class _Broken(Exception):
    """The game raised; the episode cannot go on."""


class _Watch:
    """Plays and notes faults."""

    def __init__(self, game: SymbolicGame, contracts: Mapping[str, Contract[Any]]) -> None:
        self._game, self._contracts = game, contracts
        self._agents = range(game.spec.agents)
        self._targets = Targets(game.spec.options, game.spec.agents)
        self._faults: list[Fault] = []
        self._asked: set[tuple[str, int]] = set()
        self._seed = 0

    def faults(self) -> Iterator[Fault]:
        """What play showed."""
        yield from self._faults
        yield from self._targets.faults()

    def play(self, seed: int) -> None:
        """One episode."""
        game, rng = self._game, random.Random(seed)
        held: tuple[str, ...] = ()
        self._seed = seed
        try:
            self._call("", "reset", lambda: game.reset(seed))
            while game.steps < game.spec.default_horizon:
                held = self._one_step(rng, held)
        except _Broken:
            return

    def _one_step(self, rng: random.Random, held: Sequence[str]) -> tuple[str, ...]:
        game, idle = self._game, self._game.idle()
        if idle:
            offered = [self._call("", "candidates", partial(game.candidates, agent)) for agent in self._agents]
            self._targets.watch(offered, held)
            for agent in idle:
                self._start(agent, rng.choice(offered[agent]))
        step = self._call("", "step", game.step)
        for ended in step.ended:
            self._judge(ended)
        return tuple(agent.held for agent in step.agents)

    def _start(self, agent: int, instance: Instance) -> None:
        game, option = self._game, instance.option
        features = self._call(option, "features", lambda: game.features(agent, instance))
        self._features(option, features)
        self._call(option, "explicit", lambda: game.explicit(agent, instance))
        self._call(option, "executor", lambda: game.begin(agent, instance))

    def _features(self, option: str, features: Mapping[str, str]) -> None:
        contract = self._contracts.get(option)
        if contract is None:
            return
        for name in contract.reads:
            if name not in features:
                seen = f"{name!r} is read and the game tells only {', '.join(features) or 'nothing'}"
                self._note(Rule.UNKNOWN_FEATURE, option, "reads", seen, "Read features that the game tells.")
            elif not isinstance(features[name], str):
                seen = f"{name!r} is {features[name]!r}, which is no text"
                self._note(Rule.UNKNOWN_FEATURE, option, "reads", seen, "Tell every feature as text.")

    def _judge(self, ended: Ended) -> None:
        option = ended.instance.option
        contract = self._contracts.get(option)
        where = f"{option}@{ended.instance.target} of agent {ended.agent} (seed {self._seed}, step {ended.start_step})"
        reason = ended.outcome.removeprefix(EXPLICIT)
        if contract is not None and reason != ended.outcome and reason not in contract.failures:
            seen = f"{where} failed with {reason!r}, which is not among {', '.join(contract.failures) or 'none'}"
            self._note(Rule.UNDECLARED_FAILURE, option, "failures", seen, "List every reason of the executor.")
        if ended.outcome != SUCCESS:
            return
        if ended.changed is False:
            seen = f"{where} counts as a success although nothing changed around its last step"
            cure = "Write the effect on the change: compare `before` with `after`."
            self._note(Rule.ABSOLUTE_EFFECT, option, "effect", seen, cure)
        elif ended.changed and ended.own_changed is False and option not in self._game.solo_only:
            seen = f"{where} counts as a success although nothing of the actor's own changed"
            cure = "Bind the effect to a change of the actor's own, such as its hand, or set solo_only."
            self._note(Rule.SHARED_EFFECT, option, "effect", seen, cure)

    def _note(self, rule: Rule, option: str, field: str, seen: str, cure: str) -> None:
        self._faults.append(Fault(rule, option, field, seen, cure))

    def _call(self, option: str, field: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            seen = f"it raised {type(error).__name__}: {error} (seed {self._seed}, step {self._game.steps})"
            self._note(
                Rule.RAISES, option, field, seen, "Hooks must work in every state; mend the one in the traceback."
            )
            raise _Broken from error
