"""Watches what is instantiated: only the nearest targets, only with the right thing in hand, or far too much.

*Nearest only*: an agent is offered some targets of a type while another agent is offered a further one, which the first
is offered at other times, so that it was there for both. (With one agent: always as many targets, which go back and
forth between the same ones as the agent moves.) Types that bound their instances on purpose (`present`) are left out.
*Gated*: a type is always offered with one thing in hand and never with another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
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

    seen: set[str] = field(default_factory=set)
    missing: Counter[str] = field(default_factory=Counter)
    """How often another agent was offered a target while the agent was offered others only."""
    example: dict[str, frozenset[str]] = field(default_factory=dict)
    """What it was offered then."""
    sizes: set[int] = field(default_factory=set)
    last: list[frozenset[str]] = field(default_factory=list)
    """What was offered, in order, without repeats."""
    hands: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """States by thing in hand: without any instance, with some."""


class Targets:
    """Collects offers over some play."""

    def __init__(self, options: Sequence[str], agents: int, bounded: Collection[str] = ()) -> None:
        """`bounded`: types whose instances are bounded on purpose."""
        self._options, self._agents, self._bounded = tuple(options), agents, frozenset(bounded)
        self._offers: dict[tuple[int, str], _Offers] = defaultdict(_Offers)
        self._faults: dict[tuple[Rule, str], Fault] = {}

    def watch(self, offered: Sequence[Sequence[Instance]], held: Sequence[str]) -> None:
        """All agents' candidates in one state; `held` is empty before anybody moved."""
        by_agent = [self._grouped(found) for found in offered]
        for option in self._options:
            targets = [dict.fromkeys(groups.get(option, ())) for groups in by_agent]
            for agent, mine in enumerate(targets):
                offers = self._offers[agent, option]
                if held:
                    offers.hands[held[agent]][bool(mine)] += 1
                if mine:
                    self._note_offer(offers, mine.keys(), targets[:agent] + targets[agent + 1 :])

    def _note_offer(self, offers: _Offers, mine: Set[str], others: Sequence[Mapping[str, None]]) -> None:
        offers.seen |= mine
        offers.sizes.add(len(mine))
        if not offers.last or offers.last[-1] != mine:
            offers.last.append(frozenset(mine))
        for theirs in others:
            if theirs.keys() != mine:
                for target in theirs.keys() - mine:
                    offers.missing[target] += 1
                    offers.example.setdefault(target, offers.last[-1])

    def seen(self) -> Mapping[str, Collection[str]]:
        """All targets that any agent was offered, by option."""
        found: dict[str, set[str]] = {option: set() for option in self._options}
        for (_, option), offers in self._offers.items():
            found[option] |= offers.seen
        return found

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
        if option in self._bounded:
            return None
        proofs = Counter({target: n for target, n in offers.missing.items() if target in offers.seen})
        sets = offers.last
        returns = sum(one == other for one, other in zip(sets, sets[2:], strict=False))
        if proofs.total() >= _PROOFS:
            target, _ = proofs.most_common(1)[0]
            mine = ", ".join(sorted(offers.example[target]))
            seen = f"agent {agent} is offered {mine} alone while {target} is there too ({proofs.total()} states)"
        elif self._agents == 1 and len(offers.sizes) == 1 and returns >= _PROOFS:
            each = max(offers.sizes)
            which = "one target" if each == 1 else f"{each} targets"
            seen = f"{which} at a time, going back and forth between {', '.join(sorted(offers.seen))}"
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
