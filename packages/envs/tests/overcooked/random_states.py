"""Random states of a kitchen, reachable or not, and what the engine would do with an option in them right now.

Chefs stand anywhere in their rooms, hold anything that the layout has, pots hold anything at any cooking step, counters
are filled by chance. The oracle knows no contracts but the effects: it puts the chef in front of the target and lets
the engine resolve one interact.
"""

from __future__ import annotations

import random

from potluck_envs.overcooked.engine import EngineSnapshot, Packed
from potluck_envs.overcooked.game import OvercookedGame
from potluck_envs.overcooked.layout import COUNTER, DIRECTIONS, INTERACT, POT, STAY, TOMATOES, Layout, Target
from potluck_optionlib.contracts import Change
from potluck_optionlib.executions import Snapshot
from potluck_optionlib.game import Instance


class RandomStates:
    """States of one layout."""

    def __init__(self, layout: Layout, seed: int | str) -> None:
        self.layout, self.rng = layout, random.Random(seed)
        self.food = ("onion", "tomato") if layout.of_kind(TOMATOES) else ("onion",)
        self.rooms = []
        for start in layout.starts:
            room = layout.component[layout.cell_index[start]]
            self.rooms.append([c for i, c in enumerate(layout.cells) if layout.component[i] == room])

    def draw(self) -> Snapshot:
        """One state, nobody busy."""
        rng, cells = self.rng, []
        for room in self.rooms:
            cells.append(rng.choice([cell for cell in room if cell not in cells]))
        players = tuple((cell, rng.choice(DIRECTIONS), self._held(cell)) for cell in cells)
        objects = [self._pot(target) for target in self.layout.of_kind(POT) if rng.random() < 0.8]
        full = rng.choice((0.0, 0.1, 0.3, 0.9))
        objects += [self._thing(t.cell) for t in self.layout.of_kind(COUNTER) if rng.random() < full]
        engine = EngineSnapshot(rng.randrange(400), players, tuple(objects), ())
        return Snapshot(engine, (None,) * len(players), 0, rng.randrange(1 << 30))

    def _held(self, cell: tuple[int, int]) -> Packed | None:
        return None if self.rng.random() < 0.35 else self._thing(cell)

    def _thing(self, cell: tuple[int, int]) -> Packed:
        name = self.rng.choice((*self.food, "dish", "soup"))
        if name != "soup":
            return (name, cell, f"{name}#1", -1)
        return self._soup(cell, self._contents(), None)

    def _pot(self, target: Target) -> Packed:
        contents = self._contents()
        return self._soup(target.cell, contents, self.rng.choice((-1, -1, 0, 1)))

    def _contents(self) -> list[str]:
        return [self.rng.choice(self.food) for _ in range(self.rng.randint(1, 3))]

    def _soup(self, cell: tuple[int, int], contents: list[str], phase: int | None) -> Packed:
        """`phase`: -1 idle, 0 cooking, 1 or None ready."""
        time = self.layout.times[tuple(sorted(contents))]
        tick = -1 if phase == -1 else self.rng.randrange(max(time, 1)) if phase == 0 else time
        parts = tuple((name, cell, f"{name}#1", -1) for name in contents)
        return ("soup", cell, "soup#1", -1, tick, "", parts)


def works_now(scratch: OvercookedGame, state: Snapshot, agent: int, instance: Instance) -> bool | None:
    """Would the effect come true if the chef stood in front of the target? None where the partner stands there."""
    layout = scratch.layout
    target = layout.by_text[instance.target]
    room = layout.component[layout.cell_index[state.world.players[agent][0]]]
    others = {player[0] for seat, player in enumerate(state.world.players) if seat != agent}
    for facing, (dx, dy) in enumerate(DIRECTIONS):
        cell = (target.x - dx, target.y - dy)
        index = layout.cell_index.get(cell)
        if index is None or layout.component[index] != room or cell in others:
            continue
        players = list(state.world.players)
        held = players[agent][2]
        players[agent] = (cell, DIRECTIONS[facing], held and (held[0], cell, *held[2:]))
        engine = EngineSnapshot(state.world.timestep, tuple(players), state.world.objects, state.world.counts)
        scratch.restore(Snapshot(engine, state.executions, 0, 0))
        before = scratch._kitchen.facts(agent, instance)
        scratch._engine.step([INTERACT if seat == agent else STAY for seat in range(len(players))])
        scratch._refresh()
        after = scratch._kitchen.facts(agent, instance)
        return scratch.contracts[instance.option].effect(Change(before, after))
    return None
