"""What is true in the kitchen right now: the engine's state, with everything derived from it worked out once a step.

This is the world that contracts ask (options.World) and the source of what agents are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from potluck_envs.overcooked.engine import Engine
from potluck_envs.overcooked.greedy import Outlook, Pot
from potluck_envs.overcooked.ground import ground
from potluck_envs.overcooked.layout import POT, Layout, Target
from potluck_envs.overcooked.options import TAKE
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import Instance

NO_FEATURES: Mapping[str, str] = {}


class Kitchen:
    """One layout's engine and what can be said about its present state."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.ground = ground(layout)
        self.engine = Engine(layout)
        self.seats = self.ground.seats
        self._outlooks: dict[int, Outlook] = {}
        self._pots_now: dict[int, Pot] = {}
        self._fixed: frozenset[int] = frozenset()
        self.refresh(self._fixed)

    def refresh(self, fixed: frozenset[int]) -> None:
        """Forgets what was derived from an earlier state; `fixed` are the agents that never move."""
        self._outlooks.clear()
        self._pots_now.clear()
        self._fixed = fixed
        players, poses = self.engine.state.players, self.ground.poses
        self.poses = [poses[player.position, player.orientation] for player in players]
        self.held = ["none" if (held := player.held_object) is None else str(held.name) for player in players]

    def features(self, agent: int, instance: Instance, reads: tuple[str, ...]) -> Mapping[str, str]:
        """The read set of an option; equal ones are the same object. Raises ContractError for one that is not told."""
        if not reads:
            return NO_FEATURES
        what = ""
        if reads != ("held",):
            target = self.layout.by_text[instance.target]
            pot = target.kind == POT
            if reads != ("held", "tgt_pot_state" if pot else "tgt_item"):
                told = "held, then tgt_pot_state" if pot else "held, then tgt_item"
                raise ContractError(f"{instance.option} reads {', '.join(reads)}. Read held alone, or {told}.")
            what = self.pot(target).state if pot else self.engine.item(target.cell)
        return self.ground.features(reads, self.held[agent], what)

    def facts(self, agent: int, instance: Instance) -> Mapping[str, str]:
        """What effect predicates compare before and after the last primitive."""
        target = self.layout.by_text[instance.target]
        pot = self.pot(target) if target.kind == POT else None
        return self.ground.facts(self.held[agent], self.engine.item(target.cell), pot)

    def pot(self, target: Target) -> Pot:
        """A pot in the present state."""
        pot = self._pots_now.get(target.index)
        if pot is None:
            pot = self._pots_now[target.index] = self.ground.pot(target, *self.engine.soup(target.cell))
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
        return [counter.drop for counter in self.ground.counters[agent] if counter.cell not in items]

    def lying(self, agent: int) -> Sequence[Instance]:
        """Items on counters that the agent reaches, in map order."""
        items = self.engine.state.objects
        return [counter.take for counter in self.ground.counters[agent] if counter.cell in items]

    def absent(self, instance: Instance) -> bool:
        """Has the counter's item, or the free counter, gone?"""
        item = self.engine.item(self.layout.by_text[instance.target].cell)
        return (item == "none") is (instance.option == TAKE)

    def within_reach(self, agent: int) -> frozenset[int]:
        """Targets that the agent can get to from here, past the partner where it stands or makes way."""
        other = 1 - agent
        return self.ground.within_reach(agent, self.poses[agent], self.poses[other] >> 2, other in self._fixed)

    def _look(self, agent: int) -> Outlook:
        ground, items = self.ground, self.engine.state.objects
        pots = tuple([self.pot(target) for target in ground.pots])
        lying = tuple([str(items[cell].name) for cell in ground.shared if cell in items])
        free = len(ground.shared) - len(lying)
        mine = self.within_reach(agent)
        both = mine & self.within_reach(1 - agent)
        return Outlook(self.held[agent], self.held[1 - agent], pots, mine, both, lying, free, ground.kinds(mine))
