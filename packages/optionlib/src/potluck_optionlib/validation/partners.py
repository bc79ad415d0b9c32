"""Watches what is told to, and offered to, an agent that does nothing while one partner goes about.

Whatever then changes is the partner's or time's doing, and time's share is known from the same steps played again with
the partner standing still. A partner may change the world, and that is nobody's fault. But what changes when it only
walks, or when it takes or puts something at *another* target, follows the partner itself; and it comes back when the
partner is back in the same place with the same thing in hand, each time. Such a feature in a read set is a partner's,
whatever its name; such an instance is gated by the partner.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from potluck_optionlib.contracts import Contract
from potluck_optionlib.game import NOOP, Activity, Instance, SymbolicGame
from potluck_optionlib.validation.faults import Fault, Rule

_WARM_UPS = (0, 24, 48)
"""Steps of ordinary play before the agent falls still, episode by episode."""
_DECISIONS = 40
"""The partner's options an episode."""
_LONGEST = 60
"""Steps of one of them that are waited for."""
_PROOFS, _RETURNS = 3, 3
_TARGETS = 12
"""Targets of a type that are looked at: the first ones that are ever offered."""


class _Thing(NamedTuple):
    """What may follow a partner: a feature of a target, or (without a name) whether the target is offered."""

    option: str
    target: str
    name: str = ""


_Seen = Mapping[_Thing, str]


class _Deed(NamedTuple):
    """What the partner did with one option."""

    walked: bool
    """It moved and did nothing else."""
    handled: bool
    """What it holds changed."""
    target: str
    steps: int
    key: Hashable
    """Where it is now, and what it holds."""


@dataclass(slots=True)
class _Case:
    """What speaks for a feature or an offer following the partner, and what against."""

    proofs: int = 0
    returns: int = 0
    refuted: bool = False
    example: str = ""


@dataclass(slots=True)
class _Memory:
    """What was seen of one thing, by the partner's place and hand."""

    by_key: dict[Hashable, str] = field(default_factory=dict)
    last: tuple[Hashable, str] | None = None
    away: set[Hashable] = field(default_factory=set)
    """Keys after which something else was seen."""


class Bystander:
    """One agent that does nothing, and one partner that does."""

    def __init__(self, game: SymbolicGame, contracts: Mapping[str, Contract[Any]], agent: int, partner: int) -> None:
        self._game, self._contracts, self._agent, self._partner = game, contracts, agent, partner
        self._cases: dict[tuple[str, str], _Case] = {}
        self._known: dict[str, set[str]] = {}
        self._held = ""

    def watch(self, seed: int) -> None:
        """A few episodes."""
        for episode, steps in enumerate(_WARM_UPS):
            rng = random.Random(f"{seed}/{episode}/{self._agent}")
            self._game.reset(seed + episode)
            self._held = ""
            if self._fall_still(rng, steps):
                self._episode(rng)

    def faults(self) -> Iterator[Fault]:
        """What follows the partner."""
        for (option, name), case in self._cases.items():
            if case.refuted or case.proofs < _PROOFS or case.returns < _RETURNS:
                continue
            seen = f"{case.example} ({case.proofs} times)"
            if name:
                cure = (
                    "Leave it out: what a partner does passes quickly, and a guard on it would forbid what soon works."
                )
                yield Fault(Rule.PARTNER_FEATURE, option, "reads", seen, cure)
            else:
                cure = "Return every target that exists, whatever a partner does; what cannot work is for the guards."
                yield Fault(Rule.GATED, option, "instances", seen, cure)

    def _fall_still(self, rng: random.Random, steps: int) -> bool:
        """Plays on until all but the partner do nothing and it is free to choose; False if that does not come about."""
        game, others = self._game, [a for a in range(self._game.spec.agents) if a != self._partner]
        still: set[int] = set()
        while game.steps < steps + _LONGEST:
            for agent in game.idle():
                if game.steps >= steps and agent in others:
                    game.begin(agent, NOOP)
                    still.add(agent)
                elif game.steps < steps or len(still) < len(others):
                    game.begin(agent, rng.choice(game.candidates(agent)))
            if len(still) == len(others) and self._partner in game.idle():
                return True
            self._held = game.step().agents[self._partner].held
        return False

    def _episode(self, rng: random.Random) -> None:
        game = self._game
        memories: dict[_Thing, _Memory] = {}
        for _ in range(_DECISIONS):
            if game.steps >= game.spec.default_horizon:
                return
            before, mark = self._look(), game.snapshot()
            deed = self._act(rng.choice(game.candidates(self._partner)))
            if deed is None:
                return
            after, end = self._look(), game.snapshot()
            self._remember(memories, after, deed.key)
            if after != before:
                game.restore(mark)
                game.begin(self._partner, NOOP)
                for _ in range(deed.steps):
                    game.step()
                self._compare(self._look(), after, deed)
                game.restore(end)

    def _act(self, instance: Instance) -> _Deed | None:
        """Lets the partner carry an option out; None if it goes on for too long."""
        game, partner = self._game, self._partner
        game.begin(partner, instance)
        began, quiet, was, place = game.steps, True, self._held, (0, 0, "")
        while partner not in game.idle():
            if game.steps - began >= _LONGEST:
                return None
            step = game.step()
            now = step.agents[partner]
            quiet &= now.activity is not Activity.INTERACT and not step.events and not step.reward
            self._held, place = now.held, (now.x, now.y, now.facing)
        handled = was != self._held
        key = (place, self._held)
        return _Deed(quiet and not handled, handled, instance.target, game.steps - began, key)

    def _look(self) -> _Seen:
        """What the agent is offered, and the features that guards would look at."""
        game, agent = self._game, self._agent
        found: dict[_Thing, str] = {}
        for instance in game.candidates(agent):
            contract = self._contracts.get(instance.option)
            known = self._known.setdefault(instance.option, set())
            if len(known) < _TARGETS:
                known.add(instance.target)
            if contract is None or not instance.target or instance.target not in known:
                continue
            found[_Thing(instance.option, instance.target)] = "offered"
            features = game.features(agent, instance) if contract.reads else {}
            for name, value in features.items():
                found[_Thing(instance.option, instance.target, name)] = str(value)
        return found

    def _compare(self, still: _Seen, after: _Seen, deed: _Deed) -> None:
        """Notes what differs from the world in which the partner stood still."""
        if not (deed.walked or deed.handled):
            return
        for thing in still.keys() | after.keys():
            one, other = still.get(thing, "absent"), after.get(thing, "absent")
            if one == other or (thing.name and "absent" in (one, other)):
                continue
            if deed.handled and thing.target == deed.target:
                continue
            case = self._cases.setdefault((thing.option, thing.name), _Case())
            case.proofs += 1
            what = f"{thing.name!r} at {thing.target}" if thing.name else thing.target
            did = "only walked" if deed.walked else f"took or put something at {deed.target or 'another place'}"
            case.example = case.example or (
                f"{what} went from {one!r} to {other!r} for agent {self._agent}, who did nothing, when agent "
                f"{self._partner} {did}"
            )

    def _remember(self, memories: dict[_Thing, _Memory], seen: _Seen, key: Hashable) -> None:
        for thing in seen.keys() | memories.keys():
            value = seen.get(thing, "absent")
            memory = memories.setdefault(thing, _Memory())
            case = self._cases.setdefault((thing.option, thing.name), _Case())
            known = memory.by_key.setdefault(key, value)
            case.refuted |= known != value and (not thing.name or value != "absent" != known)
            if memory.last is not None and memory.last[1] != value:
                memory.away |= memory.by_key.keys() - {key}
            if key in memory.away and known == value:
                case.returns += 1
                memory.away.discard(key)
            memory.last = (key, value)


def partner_faults(
    game: SymbolicGame, contracts: Mapping[str, Contract[Any]], seed: int, agents: Sequence[int]
) -> Iterator[Fault]:
    """What is told to or offered to an agent because of a partner; each of `agents` does nothing in turn."""
    for agent in agents:
        bystander = Bystander(game, contracts, agent, (agent + 1) % game.spec.agents)
        bystander.watch(seed)
        yield from bystander.faults()
