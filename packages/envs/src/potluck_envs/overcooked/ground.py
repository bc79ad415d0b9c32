"""What never changes about a layout's kitchen, and what was once worked out about it: shared by all games on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from potluck_envs.overcooked.greedy import Pot
from potluck_envs.overcooked.layout import COUNTER, DIRECTIONS, POT, Cell, Layout, Target
from potluck_envs.overcooked.options import DROP, TAKE, pot_phase, pot_state
from potluck_optionlib.game import Instance
from potluck_optionlib.planners import FAR


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter as an agent uses it."""

    target: Target
    cell: Cell
    drop: Instance
    take: Instance


class Ground:
    """One layout's kitchen without its state."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.seats = range(len(layout.starts))
        self.pots = layout.of_kind(POT)
        self.poses = {
            (cell, direction): layout.pose(cell, facing)
            for cell in layout.cells
            for facing, direction in enumerate(DIRECTIONS)
        }
        self.mine = tuple(frozenset(t.index for t in layout.targets if layout.reaches(s, t)) for s in self.seats)
        self.counters = tuple(
            tuple(
                Counter(t, t.cell, Instance(DROP, t.text), Instance(TAKE, t.text))
                for t in layout.of_kind(COUNTER)
                if t.index in self.mine[seat]
            )
            for seat in self.seats
        )
        self.shared = tuple(t.cell for t in layout.of_kind(COUNTER) if layout.shared(t))
        self._reach: dict[tuple[int, int, int, bool], frozenset[int]] = {}
        self._kinds: dict[frozenset[int], frozenset[str]] = {}
        self._features: dict[tuple[tuple[str, ...], str, str], Mapping[str, str]] = {}
        self._pots: dict[tuple[int, tuple[str, ...], int], Pot] = {}

    def features(self, reads: tuple[str, ...], held: str, what: str) -> Mapping[str, str]:
        """The read set `reads` with these values; equal ones are the same object."""
        key = (reads, held, what)
        features = self._features.get(key)
        if features is None:
            features = self._features[key] = dict(zip(reads, (held, what), strict=False))
        return features

    def facts(self, held: str, item: str, pot: Pot | None) -> Mapping[str, str]:
        """What effect predicates compare: a hand, and the item or the pot at the target."""
        facts = {"held": held, "tgt_item": item}
        if pot is not None:
            facts["tgt_pot_phase"] = pot.phase
            facts["tgt_pot_count"] = str(len(pot.contents))
            facts["tgt_pot_due"] = "yes" if pot.due or self.layout.ordered(pot.contents) else "no"
        return facts

    def pot(self, target: Target, contents: tuple[str, ...], tick: int) -> Pot:
        """A pot with these (sorted) contents at this cooking tick (-1 idle)."""
        key = (target.index, contents, tick)
        pot = self._pots.get(key)
        if pot is None:
            cook_time = self.layout.times.get(contents, 0)
            phase = pot_phase(contents, tick, cook_time)
            left = max(0, cook_time - tick) if tick >= 0 else 0
            pot = Pot(target, contents, phase, left, pot_state(contents, phase), self.layout.goal(contents))
            self._pots[key] = pot
        return pot

    def within_reach(self, agent: int, pose: int, other: int, fixed: bool) -> frozenset[int]:
        """Targets that an agent can get to from a pose, past the partner in a cell, who makes way unless `fixed`."""
        if not self.layout.same_room:
            return self.mine[agent]
        key = (agent, pose, other, fixed)
        reach = self._reach.get(key)
        if reach is None:
            reach = self._reach[key] = self._reached(*key)
        return reach

    def _reached(self, agent: int, pose: int, other: int, fixed: bool) -> frozenset[int]:
        layout = self.layout
        if fixed:
            return frozenset(t for t in self.mine[agent] if layout.solo(t, other)[pose] < FAR)
        return frozenset(t for t in self.mine[agent] if layout.joint(t)[pose][other] < FAR)

    def kinds(self, reach: frozenset[int]) -> frozenset[str]:
        """Tile kinds of targets."""
        kinds = self._kinds.get(reach)
        if kinds is None:
            kinds = self._kinds[reach] = frozenset(t.kind for t in self.layout.targets if t.index in reach)
        return kinds


@lru_cache(maxsize=64)
def ground(layout: Layout) -> Ground:
    """The ground of a layout, made once."""
    return Ground(layout)
