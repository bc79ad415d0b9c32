"""Checks a game: reads its contracts, then plays a few episodes uniformly and watches each state and each ending.

Where something must be arranged to show (an agent that does nothing, targets that are never offered), `partners` and
`left_out` arrange it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from potluck_optionlib.contracts import Contract
from potluck_optionlib.evidence import EXPLICIT, RAISED, SUCCESS
from potluck_optionlib.game import Ended, Instance, SymbolicGame
from potluck_optionlib.validation.effects import Effects
from potluck_optionlib.validation.faults import Fault, Rule
from potluck_optionlib.validation.left_out import left_out_faults
from potluck_optionlib.validation.partners import partner_faults
from potluck_optionlib.validation.static import static_faults
from potluck_optionlib.validation.targets import Targets

EPISODES = 6
_ENDS = (KeyboardInterrupt, GeneratorExit)
"""What ends a check from outside; a SystemExit of a game is a fault like any other."""


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
    found += watch.faults()
    if contracts and episodes and not watch.broken:
        found += _arranged(game, contracts, watch.targets, seed)
    return tuple(_first(found))


def _arranged(
    game: SymbolicGame, contracts: Mapping[str, Contract[Any]], targets: Targets, seed: int
) -> Iterator[Fault]:
    """What only shows in play that is arranged for it; nothing where the game raises in it."""
    agents = range(min(2, game.spec.agents)) if game.spec.agents > 1 else ()
    try:
        yield from partner_faults(game, contracts, seed, agents)
        yield from left_out_faults(game, contracts, targets.seen(), seed)
    except _ENDS:
        raise
    except BaseException as error:
        seen = f"it raised {type(error).__name__}: {error} in play from a snapshot"
        yield Fault(Rule.RAISES, "", "play", seen, "The game must work in every state, also after `restore`; mend it.")


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


class _Lives:
    """Which options have begun, and whether they ever end."""

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self._begun: dict[int, tuple[str, int]] = {}
        self._ended: set[str] = set()
        self._cut: dict[str, list[int]] = {}

    def begun(self, agent: int, option: str, step: int) -> None:
        self._begun[agent] = (option, step)

    def ended(self, agent: int) -> None:
        self._ended.add(self._begun.pop(agent, ("", 0))[0])

    def cut(self, step: int) -> None:
        """The episode is over."""
        for option, start in self._begun.values():
            self._cut.setdefault(option, []).append(step - start)
        self._begun.clear()

    def faults(self) -> Iterator[Fault]:
        """Options that never ended, and had the time to."""
        for option, lengths in self._cut.items():
            if option not in self._ended and max(lengths) >= self._horizon // 2:
                seen = f"begun {len(lengths)} times, it never ended; once {max(lengths)} steps had gone by"
                yield Fault(
                    Rule.NEVER_ENDS, option, "timeout", seen, "Let the executor end, or give a shorter time-out."
                )


class _Watch:
    """Plays and notes faults."""

    def __init__(self, game: SymbolicGame, contracts: Mapping[str, Contract[Any]]) -> None:
        self._game, self._contracts = game, contracts
        self._agents = range(game.spec.agents)
        bounded = [name for name, contract in contracts.items() if contract.present is not None]
        self.targets = Targets(game.spec.options, game.spec.agents, bounded)
        self.broken = False
        self._effects = Effects(game, contracts)
        self._lives = _Lives(game.spec.default_horizon)
        self._faults: list[Fault] = []
        self._running: dict[int, Instance] = {}
        self._seed = 0

    def faults(self) -> Iterator[Fault]:
        """What play showed."""
        yield from self._faults
        yield from self.targets.faults()
        yield from self._lives.faults()

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
            self.broken = True
        self._lives.cut(game.steps)
        self._running.clear()

    def _one_step(self, rng: random.Random, held: Sequence[str]) -> tuple[str, ...]:
        game, idle = self._game, self._game.idle()
        if idle:
            offered = [self._call("", "candidates", partial(game.candidates, agent)) for agent in self._agents]
            self.targets.watch(offered, held)
            for agent in idle:
                self._start(agent, rng.choice(offered[agent]))
        self._effects.note(self._running.items())
        step = self._call("", "step", game.step)
        for ended in step.ended:
            self._running.pop(ended.agent, None)
            self._lives.ended(ended.agent)
            self._judge(ended)
        return tuple(agent.held for agent in step.agents)

    def _start(self, agent: int, instance: Instance) -> None:
        game, option = self._game, instance.option
        features = self._call(option, "features", lambda: game.features(agent, instance))
        self._features(option, features)
        self._call(option, "explicit", lambda: game.explicit(agent, instance))
        self._call(option, "executor", lambda: game.begin(agent, instance))
        self._running[agent] = instance
        self._lives.begun(agent, option, game.steps)

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
        if ended.outcome.startswith(RAISED):
            kind = ended.outcome.removeprefix(RAISED)
            seen = f"{where} raised {kind} while it was carried out or judged"
            self._note(Rule.RAISES, option, "executor", seen, "Executor and effect must work in every state; mend it.")
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
        elif self._effects.unbound(ended):
            seen = f"{where} would count as a success, too, had nothing of the actor's own changed"
            cure = "Bind the effect to a change of the actor's own, such as its hand, or set solo_only."
            self._note(Rule.SHARED_EFFECT, option, "effect", seen, cure)

    def _note(self, rule: Rule, option: str, field: str, seen: str, cure: str) -> None:
        self._faults.append(Fault(rule, option, field, seen, cure))

    def _call(self, option: str, field: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except _ENDS:
            raise
        except BaseException as error:
            seen = f"it raised {type(error).__name__}: {error} (seed {self._seed}, step {self._game.steps})"
            self._note(
                Rule.RAISES, option, field, seen, "Hooks must work in every state; mend the one in the traceback."
            )
            raise _Broken from error
