"""One burn-in episode on the real engine: what chefs that cannot meet and chefs that can have in common.

Every interact is the engine's own `resolve_interacts` on the engine's own state. Between interacts nothing happens but
walks, which are looked up (`routes.py`), and cooking, which is counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from potluck_envs.overcooked.choices import Choice, Choices, Look, Verdict
from potluck_envs.overcooked.engine import ACTIONS, Engine
from potluck_envs.overcooked.ground import Ground
from potluck_envs.overcooked.kettle import Kettle
from potluck_envs.overcooked.layout import DIRECTIONS, INTERACT, STAY
from potluck_envs.overcooked.options import NO_PATH, NOTHING_HELD
from potluck_envs.overcooked.routes import Routes
from potluck_envs.overcooked.shim import EVENT_TYPES
from potluck_optionlib.burnin import Row

Watcher: TypeAlias = Callable[[bytes], None]
"""Gets the engine's state after every primitive step."""

WAITED, TIMED_OUT = Verdict("success", None, None), Verdict("timeout", None, None)
_ACTING = [tuple(ACTIONS[INTERACT if mask >> seat & 1 else STAY] for seat in (0, 1)) for mask in range(4)]
"""Joint actions by the set of seats that interact, as bits."""
_FLAGS = {kind: [False, False] for kind in EVENT_TYPES}
"""Where the engine notes events, which nobody reads here."""
_row = tuple.__new__


class Task:
    """An option under way."""

    __slots__ = ("choice", "due", "failed", "features", "grants", "rank", "start", "walk")

    def __init__(self, choice: Choice, start: int, features: Mapping[str, str], failed: str) -> None:
        self.choice, self.start, self.features, self.failed = choice, start, features, failed
        self.due = start
        """The step with which it ends, as far as can be told; only where walks are jumped over."""
        self.walk: tuple[int, ...]
        """Poses from the first step to the last; likewise."""
        self.rank: tuple[int, int]
        """As Partner.rank, and `grants` as Partner.grants; only where chefs can meet."""
        self.grants: int


class Round:
    """One episode under way. `actor` plays beside a no-op unless it is None."""

    def __init__(
        self,
        ground: Ground,
        choices: Choices,
        routes: Routes,
        engine: Engine,
        seed: int,
        actor: int | None,
        horizon: int,
        watch: Watcher | None,
    ) -> None:
        self._ground, self._choices, self._routes, self._engine = ground, choices, routes, engine
        self._layout = ground.layout
        self._seed, self._actor, self._horizon, self._watch = seed, actor, horizon, watch
        self._bits = random.Random(seed).getrandbits
        engine.reset()
        self._state, self._resolve = engine.state, self._layout.mdp.resolve_interacts
        self._objects: Mapping[Any, Any] = self._state.objects
        self._players = self._state.players
        self._poses = [ground.poses[player.position, player.orientation] for player in self._players]
        self._held = [_held(player) for player in self._players]
        self._tasks: list[Task | None] = [None, None]
        self._now = 0
        self._rows: list[Row] = []
        self._boiling: list[tuple[Any, int]] = []
        self._kettles = {target.index: Kettle() for target in ground.pots}
        for target in ground.pots:
            self._look_into(target.index, target.cell)
        self._counters: list[tuple[list[Choice], list[Choice]] | None] = [None, None]
        """Drops and takes of each seat, where they are known."""

    def _draw(self, seat: int) -> Choice:
        """A uniform choice; the draw is the one that `random.choice` makes."""
        menu = self._choices.menus[seat]
        size, bits = menu.size, menu.bits
        drawn = self._bits(bits)
        while drawn >= size:
            drawn = self._bits(bits)
        if drawn < len(menu.stations):
            return menu.stations[drawn]
        return self._choices.wait if drawn == size - 1 else self._counter(seat, drawn - len(menu.stations))

    def _counter(self, seat: int, drawn: int) -> Choice:
        split = self._counters[seat]
        if split is None:
            objects, counters = self._objects, self._choices.menus[seat].counters
            free = [drop for drop, _ in counters if drop.cell not in objects]
            split = self._counters[seat] = (free, [take for _, take in counters if take.cell in objects])
        free, lying = split
        return free[drawn] if drawn < len(free) else lying[drawn - len(free)]

    def _what(self, choice: Choice) -> str:
        """The target's part of the read set."""
        if not choice.option.reads_target:
            return ""
        return self._kettles[choice.place].state if choice.pot else self._item(choice)

    def _explicit(self, seat: int, choice: Choice) -> str:
        """Why the option cannot begin, or ""."""
        if choice.option.needs_held and self._held[seat] == "none":
            return NOTHING_HELD
        if choice.place < 0:
            return ""
        beside = self._poses[1 - seat] >> 2
        reach = self._ground.within_reach(seat, self._poses[seat], beside, self._actor is not None)
        return "" if choice.place in reach else NO_PATH

    def _look(self, seat: int, choice: Choice) -> Look:
        if choice.pot:
            kettle = self._kettles[choice.place]
            return self._held[seat], kettle.contents, kettle.phase
        return self._held[seat], (), self._item(choice)

    def _item(self, choice: Choice) -> str:
        item = self._objects.get(choice.cell)
        name: str = "none" if item is None else item.name
        return name

    def _absent(self, choice: Choice) -> bool:
        """Has the counter's item, or the free counter, gone?"""
        return choice.option.counters and (choice.cell in self._objects) is not choice.option.takes

    def _interact(self, acting: Sequence[tuple[int, Choice]]) -> bool:
        """Lets seats interact at once, where they stand; was anything put on or taken from a counter?"""
        seats = 3 if len(acting) > 1 else 1 << acting[0][0]
        self._resolve(self._state, _ACTING[seats], _FLAGS)
        moved = False
        for seat, choice in acting:
            before = self._held[seat]
            after = self._held[seat] = _held(self._players[seat])
            if choice.pot:
                if before != after or after == "none":
                    self._look_into(choice.place, choice.cell)
            elif before != after and choice.option.counters:
                self._counters = [None, None]
                moved = True
        return moved

    def _end(self, seat: int, task: Task, verdict: Verdict) -> None:
        self._tasks[seat] = None
        self._rows.append(_row(Row, (task.start, seat, task.choice.instance, task.features, *verdict)))

    def _look_into(self, place: int, cell: tuple[int, int]) -> None:
        kettle, soup = self._kettles[place], self._objects.get(cell)
        kettle.look_into(soup, self._layout.times)
        if kettle.phase == "cooking" and all(soup is not known for known, _ in self._boiling):
            self._boiling.append((soup, kettle.cook_time))

    def _boil(self, steps: int) -> None:
        """What `step_environment_effects` does in so many steps."""
        for soup, cook_time in self._boiling:
            soup._cooking_tick = min(soup._cooking_tick + steps, cook_time)
        self._boiling = [(soup, time) for soup, time in self._boiling if soup._cooking_tick < time]

    def _stand(self, seat: int, pose: int) -> None:
        """Puts a chef where it has walked to."""
        self._players[seat].update_pos_and_or(self._layout.cells[pose >> 2], DIRECTIONS[pose & 3])

    def _show(self, watch: Watcher) -> None:
        for seat in (0, 1):
            self._stand(seat, self._pose(seat))
        self._state.timestep = self._now
        watch(self._engine.state_bytes())

    def _pose(self, seat: int) -> int:
        """Where a chef is now."""
        return self._poses[seat]


def _held(player: Any) -> str:
    item = player.held_object
    name: str = "none" if item is None else item.name
    return name


@cache
def explicit(reason: str) -> Verdict:
    """The end of an option that could not begin, or go on."""
    return Verdict(f"explicit:{reason}", None, None)
