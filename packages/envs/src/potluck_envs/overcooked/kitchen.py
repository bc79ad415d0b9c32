"""What is true in the kitchen right now: the engine's state, with everything derived from it worked out once a step.

This is the world that contracts ask (options.World) and the source of what agents are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from potluck_optionlib.game import Instance

from potluck_envs.overcooked.engine import Engine
from potluck_envs.overcooked.greedy import Outlook, Pot
from potluck_envs.overcooked.layout import COUNTER, FAR, POT, Layout, Target
from potluck_envs.overcooked.options import pot_phase, pot_state

NO_FEATURES: Mapping[str, str] = {}


class Kitchen:
    """One layout's engine and what can be said about its present state."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.engine = Engine(layout)
        self.seats = range(len(layout.starts))
        self.pots = layout.of_kind(POT)
        self.mine = tuple(frozenset(t.index for t in layout.targets if layout.reaches(s, t)) for s in self.seats)
        self.counters = tuple(
            tuple(
                (t.cell, Instance("drop_held", t.text), Instance("pick_from_counter", t.text))
                for t in layout.of_kind(COUNTER)
                if t.index in self.mine[seat]
            )
            for seat in self.seats
        )
        self._shared = tuple(t for t in layout.of_kind(COUNTER) if layout.shared(t))
        self._reach: dict[tuple[int, int, bool], frozenset[int]] = {}
        self._features: dict[tuple[str, str, str], Mapping[str, str]] = {}
        self._outlooks: dict[int, Outlook] = {}
        self._pots_now: dict[int, Pot] = {}
        self._fixed: frozenset[int] = frozenset()
        self.refresh(frozenset())

    def refresh(self, fixed: frozenset[int]) -> None:
        """Forgets what was derived from an earlier state; `fixed` are the agents that never move."""
        self._outlooks.clear()
        self._pots_now.clear()
        self._fixed = fixed
        engine = self.engine
        self.poses = [self.layout.pose(engine.cell(seat), engine.facing(seat)) for seat in self.seats]
        self.held = [engine.held(seat) for seat in self.seats]

    def features(self, agent: int, instance: Instance, reads: tuple[str, ...]) -> Mapping[str, str]:
        """The read set of an option; equal ones are the same object."""
        if not reads:
            return NO_FEATURES
        option, held, what = instance.option, self.held[agent], ""
        if len(reads) > 1:
            target = self.layout.by_text[instance.target]
            what = self.pot(target).state if target.kind == POT else self.engine.item(target.cell)
        key = (option, held, what)
        if key not in self._features:
            self._features[key] = dict(zip(reads, (held, what), strict=False))
        return self._features[key]

    def facts(self, agent: int, instance: Instance) -> Mapping[str, str]:
        """What effect predicates compare before and after the last primitive."""
        target = self.layout.by_text[instance.target]
        facts = {"held": self.held[agent], "tgt_item": self.engine.item(target.cell)}
        if target.kind == POT:
            pot = self.pot(target)
            facts["tgt_pot_phase"] = pot.phase
            facts["tgt_pot_count"] = str(len(pot.contents))
            facts["tgt_pot_due"] = "yes" if pot.due or self.layout.ordered(pot.contents) else "no"
        return facts

    def pot(self, target: Target) -> Pot:
        """A pot in the present state."""
        pot = self._pots_now.get(target.index)
        if pot is None:
            contents, tick = self.engine.soup(target.cell)
            cook_time = self.layout.times.get(contents, 0)
            phase = pot_phase(contents, tick, cook_time)
            left = max(0, cook_time - tick) if tick >= 0 else 0
            pot = Pot(target, contents, phase, left, pot_state(contents, phase), self.layout.goal(contents))
            self._pots_now[target.index] = pot
        return pot

    def outlook(self, agent: int) -> Outlook:
        """The present state as one chef sees it."""
        if agent not in self._outlooks:
            self._outlooks[agent] = self._look(agent)
        return self._outlooks[agent]

    def holds(self, agent: int) -> bool:
        """Has the agent something in its hands?"""
        return self.held[agent] != "none"

    def has_path(self, agent: int, instance: Instance) -> bool:
        """Can the target be faced, given a partner that makes way unless it never moves?"""
        return self.layout.by_text[instance.target].index in self.within_reach(agent)

    def free(self, agent: int) -> Sequence[Instance]:
        """Empty counters that the agent reaches, in map order."""
        items = self.engine.state.objects
        return [instance for cell, instance, _ in self.counters[agent] if cell not in items]

    def lying(self, agent: int) -> Sequence[Instance]:
        """Items on counters that the agent reaches, in map order."""
        items = self.engine.state.objects
        return [instance for cell, _, instance in self.counters[agent] if cell in items]

    def absent(self, instance: Instance) -> bool:
        """Has the counter's item, or the free counter, gone?"""
        item = self.engine.item(self.layout.by_text[instance.target].cell)
        return (item == "none") is (instance.option == "pick_from_counter")

    def within_reach(self, agent: int) -> frozenset[int]:
        """Targets that the agent can get to from here, past the partner where it stands or makes way."""
        if not self.layout.same_room:
            return self.mine[agent]
        fixed = 1 - agent in self._fixed
        key = (self.poses[agent], self.poses[1 - agent] >> 2, fixed)
        if key not in self._reach:
            self._reach[key] = self._reached(agent, *key)
        return self._reach[key]

    def _reached(self, agent: int, pose: int, other: int, fixed: bool) -> frozenset[int]:
        layout = self.layout
        if fixed:
            return frozenset(t for t in self.mine[agent] if layout.solo(t, other)[pose] < FAR)
        return frozenset(t for t in self.mine[agent] if layout.joint(t)[pose][other] < FAR)

    def _look(self, agent: int) -> Outlook:
        pots = tuple(self.pot(target) for target in self.pots)
        lying = tuple(item for t in self._shared if (item := self.engine.item(t.cell)) != "none")
        free = len(self._shared) - len(lying)
        mine = self.within_reach(agent)
        both = mine & self.within_reach(1 - agent)
        return Outlook(self.held[agent], self.held[1 - agent], pots, mine, both, lying, free)
