"""Tries options at targets that are not offered, though the picture shows the same kind of thing there.

Only the first of several dispensers may ever be among the instances: no offer betrays that the others exist. So the
contracts are widened by the cells whose tile is that of a known target, and played by one agent while the others wait
and make way. A target counts as left out where the option's own effect came true there, something of the actor's own
or of that target changed, and the contract did not name it right before: then it was there, and should have been.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from potluck_optionlib.contracts import Contract
from potluck_optionlib.evidence import SUCCESS
from potluck_optionlib.executions import Facts
from potluck_optionlib.game import Instance, SymbolicGame
from potluck_optionlib.menus import WAIT
from potluck_optionlib.validation.effects import FactualGame
from potluck_optionlib.validation.faults import Fault, Rule
from potluck_optionlib.world import cell_of, text_of

_EPISODES, _MOST, _TRIES = 6, 24, 6
"""Episodes an agent at most; cells a type; failures in one state of its features, after which a cell is let go."""
_PROOFS = 2
_AGENTS, _STEPS = 2, 400
"""Agents that try, and steps of an episode, at most."""


@runtime_checkable
class Recontractable(Protocol):
    """A game that can be played under other contracts. Reset either of the two before it is played."""

    def under(self, contracts: Sequence[Contract[Any]]) -> SymbolicGame: ...


def left_out_faults(
    game: SymbolicGame, contracts: Mapping[str, Contract[Any]], seen: Mapping[str, Collection[str]], seed: int
) -> Iterator[Fault]:
    """`seen`: targets by option that play has offered to anybody."""
    if not isinstance(game, Recontractable) or not isinstance(game, FactualGame):
        return
    extra = _cells_alike(game, contracts, seen, random.Random(seed))
    if not extra:
        return
    trial = _Trial(game, contracts, extra)
    for agent in range(min(_AGENTS, game.spec.agents)):
        for episode in range(_EPISODES):
            if not trial.play(agent, seed + episode):
                break
    yield from trial.faults()


def _cells_alike(
    game: SymbolicGame, contracts: Mapping[str, Contract[Any]], seen: Mapping[str, Collection[str]], rng: random.Random
) -> dict[str, list[Instance]]:
    scene = game.scene()
    tiles = {text_of((i % scene.width, i // scene.width)): tile for i, tile in enumerate(scene.tiles)}
    found = {}
    for name, contract in contracts.items():
        kinds = {tiles[target] for target in seen.get(name, ()) if target in tiles}
        alike = [target for target, tile in tiles.items() if tile in kinds]
        if alike and contract.present is None:
            drawn = rng.sample(alike, min(_MOST, len(alike)))
            found[name] = [Instance(name, target) for target in sorted(drawn, key=cell_of)]
    return found


class _Trial:
    """One agent plays, half of the time at targets that the contracts do not name."""

    def __init__(
        self, game: Recontractable, contracts: Mapping[str, Contract[Any]], extra: Mapping[str, Sequence[Instance]]
    ) -> None:
        self._named: dict[tuple[str, int], frozenset[Instance]] = {}
        """What the contracts themselves named when they were last asked, by option and agent."""
        self._game: Any = game.under(
            [self._widened(c, extra[name]) if name in extra else c for name, c in contracts.items()]
        )
        self._horizon = min(self._game.spec.default_horizon, _STEPS)
        self._failures: Counter[tuple[Instance, str]] = Counter()
        self._proofs: Counter[Instance] = Counter()

    def _widened(self, contract: Contract[Any], extra: Sequence[Instance]) -> Contract[Any]:
        def instances(world: Any, agent: int) -> Sequence[Instance]:
            own = contract.instances(world, agent)
            named = self._named[contract.name, agent] = frozenset(own)
            return [*own, *[instance for instance in extra if instance not in named]]

        return replace(contract, instances=instances)

    def faults(self) -> Iterator[Fault]:
        """The targets at which an option worked, one for each option."""
        told: set[str] = set()
        for instance, count in self._proofs.most_common():
            if count >= _PROOFS and instance.option not in told:
                told.add(instance.option)
                seen = f"it worked {count} times at {instance.target} while that was not among them"
                cure = "Return one instance for every target that exists, not only the first."
                yield Fault(Rule.LEFT_OUT, instance.option, "instances", seen, cure)

    def play(self, agent: int, seed: int) -> bool:
        """One episode; was anything tried? Ends early where the game raises, as it may on cells it never meant."""
        game, rng, tried = self._game, random.Random(seed), False
        try:
            game.reset(seed)
            while game.steps < self._horizon:
                tried |= self._one(agent, rng)
        except Exception:
            return tried
        return tried

    def _one(self, agent: int, rng: random.Random) -> bool:
        game = self._game
        instance, state = self._drawn(agent, rng)
        try:
            game.begin(agent, instance)
        except Exception:
            if state is None:
                raise
            self._failures[instance, state] = _TRIES
            return False
        while agent not in game.idle() and game.steps < self._horizon:
            before = game.facts(agent, instance) if state is not None else None
            for other in game.idle():
                game.begin(other, Instance(WAIT))
            game.candidates(agent)
            named = self._is_named(agent, instance)
            outcome = next((end.outcome for end in game.step().ended if end.agent == agent), "")
            if before is not None and state is not None and outcome == SUCCESS:
                self._proofs[instance] += not named and _changed(before, game.facts(agent, instance))
            elif state is not None and outcome:
                self._failures[instance, state] += 1
        return state is not None

    def _drawn(self, agent: int, rng: random.Random) -> tuple[Instance, str | None]:
        """What to do, and the state of its features if it is a trial."""
        named: list[Instance] = []
        trials: dict[Instance, str] = {}
        for instance in self._game.candidates(agent):
            if self._is_named(agent, instance):
                named.append(instance)
            elif (state := self._state(agent, instance)) and self._failures[instance, state] < _TRIES:
                trials[instance] = state
        pool = list(trials) if trials and rng.random() < 0.5 else named
        option = rng.choice(sorted({instance.option for instance in pool}))
        instance = rng.choice([instance for instance in pool if instance.option == option])
        return instance, trials.get(instance)

    def _is_named(self, agent: int, instance: Instance) -> bool:
        named = self._named.get((instance.option, agent))
        return named is None or instance in named

    def _state(self, agent: int, instance: Instance) -> str:
        """Its features as text; "" where the game cannot tell any."""
        try:
            self._game.facts(agent, instance)
            return f"{agent} {self._game.explicit(agent, instance)} {self._game.features(agent, instance)}"
        except Exception:
            return ""


def _changed(before: Facts, after: Facts) -> bool:
    """Did anything change but where the actor stands?"""
    apart = [{name: value for name, value in facts.own.items() if name != "there"} for facts in (before, after)]
    return apart[0] != apart[1] or before.target != after.target
