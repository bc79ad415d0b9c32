"""Watches what is instantiated: only the nearest target, only with the right thing in hand, or far too much.

*Nearest only*: an agent is never offered more than one target of a type, although there are several over time, and at
some moments another agent is offered one of the agent's other targets, so that one was there for both. (With one agent:
the target goes back and forth between the same ones as the agent moves.) *Gated*: a type is always offered with one
thing in hand and never with another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from potluck_optionlib.burnin import MAX_INSTANCES
from potluck_optionlib.game import Instance
from potluck_optionlib.validation.faults import Fault, Rule

_PROOFS = 3
"""Moments that prove a target was left out."""
_STATES = 20
"""States with a thing in hand before anything is said about it."""


@dataclass(slots=True)
class _Offers:
    """One agent's offers of one type."""

    most: int = 0
    seen: set[str] = field(default_factory=set)
    beside: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the agent was offered the one target while another agent was offered the other."""
    last: list[str] = field(default_factory=list)
    """Single targets in order, without repeats."""
    hands: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """States by thing in hand: without any instance, with some."""


class Targets:
    """Collects offers over some play."""

    def __init__(self, options: Sequence[str], agents: int) -> None:
        self._options, self._agents = tuple(options), agents
        self._offers: dict[tuple[int, str], _Offers] = defaultdict(_Offers)
        self._faults: dict[tuple[Rule, str], Fault] = {}

    def watch(self, offered: Sequence[Sequence[Instance]], held: Sequence[str]) -> None:
        """All agents' candidates in one state; `held` is empty before anybody moved."""
        by_agent = [self._grouped(found) for found in offered]
        for option in self._options:
            targets = [groups.get(option, []) for groups in by_agent]
            for agent, mine in enumerate(targets):
                offers = self._offers[agent, option]
                offers.most = max(offers.most, len(mine))
                if held:
                    offers.hands[held[agent]][bool(mine)] += 1
                if len(mine) != 1:
                    continue
                offers.seen.add(mine[0])
                if offers.last[-1:] != mine:
                    offers.last.append(mine[0])
                for other, theirs in enumerate(targets):
                    if other != agent:
                        offers.beside.update((mine[0], target) for target in theirs if target != mine[0])

    def faults(self) -> Iterator[Fault]:
        """What the offers show."""
        yield from self._faults.values()
        for option in self._options:
            found = (self._nearest(agent, option) or self._gated(agent, option) for agent in range(self._agents))
            yield from [fault for fault in found if fault is not None][:1]

    def _grouped(self, found: Sequence[Instance]) -> Mapping[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for instance in found:
            groups.setdefault(instance.option, []).append(instance.target)
        for option, targets in groups.items():
            if option not in self._options:
                seen = f"{option}@{targets[0]} is among the candidates, and there is no contract {option!r}"
                self._note(Fault(Rule.INSTANCE, option, "instances", seen, "Name the contract's own type."))
            if len(set(targets)) < len(targets):
                twice = Counter(targets).most_common(1)[0][0]
                seen = f"{option}@{twice} is there twice in one state"
                self._note(Fault(Rule.INSTANCE, option, "instances", seen, "Return each target once."))
            if len(targets) > MAX_INSTANCES:
                seen = f"{len(targets)} targets in one state (at most {MAX_INSTANCES})"
                cure = "Make targets of things and not of every cell, or bind the type more tightly."
                self._note(Fault(Rule.TOO_MANY, option, "instances", seen, cure))
        return groups

    def _note(self, fault: Fault) -> None:
        self._faults.setdefault((fault.rule, fault.option), fault)

    def _nearest(self, agent: int, option: str) -> Fault | None:
        offers = self._offers[agent, option]
        if offers.most != 1 or len(offers.seen) < 2:
            return None
        proofs = Counter({pair: n for pair, n in offers.beside.items() if pair[1] in offers.seen})
        returns = sum(a == c for a, c in zip(offers.last, offers.last[2:], strict=False))
        if proofs.total() >= _PROOFS:
            (mine, other), _ = proofs.most_common(1)[0]
            seen = f"agent {agent} is offered {mine} alone while {other} is there too ({proofs.total()} states)"
        elif self._agents == 1 and returns >= _PROOFS:
            seen = f"one target at a time, which goes back and forth between {', '.join(sorted(offers.seen))}"
        else:
            return None
        cure = "Return one instance for every target that exists, not only the nearest."
        return Fault(Rule.NEAREST_TARGET, option, "instances", seen, cure)

    def _gated(self, agent: int, option: str) -> Fault | None:
        hands = self._offers[agent, option].hands
        never = [held for held, (without, some) in hands.items() if not some and without >= _STATES]
        always = [held for held, (without, some) in hands.items() if not without and some >= _STATES]
        if not never or not always:
            return None
        seen = (
            f"agent {agent} has instances whenever it holds {always[0] or 'nothing'} and none whenever it holds "
            f"{never[0] or 'nothing'}"
        )
        cure = "Return every target that exists, whatever the agent holds; what cannot work is for the guards to find."
        return Fault(Rule.GATED, option, "instances", seen, cure)
