"""One burn-in episode on the real engine, jumped through from one event to the next.

Every interact is the engine's own `resolve_interacts` on the engine's own state. Between interacts nothing happens but
walks, which are looked up (`routes.py`), and cooking, which is counted. A chef that nobody can get in the way of is
only looked at when its option ends; two chefs in one room are looked at every step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from potluck_envs.overcooked.choices import Choice, Choices, Look, Verdict
from potluck_envs.overcooked.engine import ACTIONS, Engine
from potluck_envs.overcooked.ground import Ground
from potluck_envs.overcooked.layout import DIRECTIONS, INTERACT, STAY, Cell
from potluck_envs.overcooked.options import NO_PATH, NOTHING_HELD, TARGET_ABSENT, WAIT_STEPS, pot_phase, pot_state
from potluck_envs.overcooked.routes import ACT, GO, HOLD, Part, Routes
from potluck_envs.overcooked.shim import EVENT_TYPES
from potluck_envs.overcooked.traffic import lot
from potluck_optionlib.burnin import Row

Watcher: TypeAlias = Callable[[bytes], None]
"""Gets the engine's state after every primitive step."""

_NOWHERE = -1
_INTERACTS = {
    (0,): (ACTIONS[INTERACT], ACTIONS[STAY]),
    (1,): (ACTIONS[STAY], ACTIONS[INTERACT]),
    (0, 1): (ACTIONS[INTERACT], ACTIONS[INTERACT]),
}
_WAITED, _TIMED_OUT = Verdict("success", None, None), Verdict("timeout", None, None)


class Kettle:
    """A pot as the engine has it, with what is asked of it at every turn."""

    __slots__ = ("contents", "cook_time", "idle", "soup")

    def __init__(self) -> None:
        self.soup: Any = None
        self.contents: tuple[str, ...] = ()
        self.cook_time = 0
        self.idle = "empty"
        """The feature `tgt_pot_state` while it does not cook."""

    @property
    def phase(self) -> str:
        """ "empty", "idle", "cooking" or "ready"."""
        tick = -1 if self.soup is None else self.soup._cooking_tick
        return pot_phase(self.contents, tick, self.cook_time)

    @property
    def state(self) -> str:
        """The feature `tgt_pot_state`."""
        if self.soup is None or self.soup._cooking_tick < 0:
            return self.idle
        return "ready" if self.soup._cooking_tick >= self.cook_time else "cooking"

    @property
    def left(self) -> int:
        """Steps until a cooking soup is ready."""
        return int(self.cook_time - self.soup._cooking_tick)


class Task:
    """An option under way."""

    __slots__ = ("choice", "due", "failed", "features", "grants", "rank", "start", "walk")

    def __init__(self, choice: Choice, start: int, features: Mapping[str, str], failed: str) -> None:
        self.choice, self.start, self.features, self.failed = choice, start, features, failed
        self.due = start
        """The step with which it ends, as far as can be told; only where walks are jumped over."""
        self.walk: tuple[int, ...] = ()
        self.rank = (start, 0)
        self.grants = 0


class Episode:
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
        self._rng = random.Random(seed)
        engine.reset()
        self._state, self._resolve = engine.state, self._layout.mdp.resolve_interacts
        self._flags = {kind: [False, False] for kind in EVENT_TYPES}
        self._objects: Mapping[Any, Any] = self._state.objects
        self._players = self._state.players
        self._poses = [ground.poses[player.position, player.orientation] for player in self._players]
        self._held = [_held(player) for player in self._players]
        self._tasks: list[Task | None] = [None, None]
        self._seats = (0, 1) if actor is None else (actor,)
        self._now = 0
        self._rows: list[Row] = []
        self._boiling: list[tuple[Any, int]] = []
        self._kettles = {target.index: Kettle() for target in ground.pots}
        for target in ground.pots:
            self._look_into(target.index, target.cell)
        self._counters: list[tuple[list[Choice], list[Choice]] | None] = [None, None]

    # --- choosing ---

    def _begin(self, seat: int) -> Task:
        menu = self._choices.menus[seat]
        drawn = self._rng.choice(menu.draw)
        if drawn < len(menu.stations):
            choice = menu.stations[drawn]
        elif drawn == len(menu.draw) - 1:
            choice = self._choices.wait
        else:
            choice = self._counter(seat, drawn - len(menu.stations))
        task = self._tasks[seat] = Task(choice, self._now, self._features(seat, choice), self._explicit(seat, choice))
        return task

    def _counter(self, seat: int, drawn: int) -> Choice:
        split = self._counters[seat]
        if split is None:
            objects, all_counters = self._objects, self._choices.menus[seat].counters
            free = [drop for drop, _ in all_counters if drop.cell not in objects]
            split = self._counters[seat] = (free, [take for _, take in all_counters if take.cell in objects])
        free, lying = split
        return free[drawn] if drawn < len(free) else lying[drawn - len(free)]

    def _features(self, seat: int, choice: Choice) -> Mapping[str, str]:
        what = ""
        if len(choice.option.reads) > 1:
            what = self._kettles[choice.place].state if choice.pot else self._item(choice)
        return self._choices.features(choice, self._held[seat], what)

    def _explicit(self, seat: int, choice: Choice) -> str:
        if choice.option.needs_held and self._held[seat] == "none":
            return NOTHING_HELD
        if choice.place < 0:
            return ""
        beside = self._poses[1 - seat] >> 2
        reach = self._ground.within_reach(seat, self._poses[seat], beside, self._actor is not None)
        return "" if choice.place in reach else NO_PATH

    # --- chefs that nobody gets in the way of ---

    def play_apart(self) -> list[Row]:
        """Plays to the horizon where chefs cannot meet, from one end of an option to the next."""
        while self._now < self._horizon:
            for seat in self._seats:
                if self._tasks[seat] is None:
                    self._set_out(seat, self._begin(seat))
            due = min([task.due for task in self._tasks if task is not None])
            self._pass(min(due, self._horizon) - self._now)
            if self._now < self._horizon:
                self._settle()
        return self._rows

    def _set_out(self, seat: int, task: Task) -> None:
        """Works out the walk, and the step at which something will have to be decided."""
        choice, pose = task.choice, self._poses[seat]
        if task.failed:
            task.walk = (pose,)
        elif choice.place < 0:
            task.walk, task.due = (pose,), task.start + WAIT_STEPS - 1
        else:
            shut_in = self._actor is not None and self._layout.same_room
            task.walk = self._routes.walk(pose, choice.place, self._poses[1 - seat] >> 2 if shut_in else _NOWHERE)
            task.due = task.start + min(len(task.walk), choice.option.timeout) - 1

    def _settle(self) -> None:
        """The step now: whoever is due ends its option, unless it has reason to stand by."""
        ends: dict[int, Verdict] = {}
        acting: list[int] = []
        for seat in self._seats:
            task = self._tasks[seat]
            if task is None or task.due != self._now:
                continue
            verdict = self._due(seat, task)
            if verdict is not None:
                ends[seat] = verdict
            elif task.due == self._now:
                acting.append(seat)
        if not ends and not acting:
            return
        before = self._interact(acting)
        self._boil(1)
        self._now += 1
        ends |= self._judge(before)
        for seat in sorted(ends):
            self._poses[seat] = self._pose(seat)
            self._end(seat, ends[seat])
        if before:
            self._look_round()
        if self._watch is not None:
            self._show(self._watch)

    def _due(self, seat: int, task: Task) -> Verdict | None:
        """How the option ends with this step; None for a chef that acts, or that stands by and is due later."""
        option, gone = task.choice.option, self._now - task.start
        if task.failed:
            return _explicit(task.failed)
        if task.choice.place < 0:
            return _WAITED
        if gone < len(task.walk) - 1:
            return _TIMED_OUT
        if option.plates and self._held[seat] == "dish" and self._kettles[task.choice.place].phase == "cooking":
            last = option.timeout - 1
            if gone >= last:
                return _TIMED_OUT
            task.due = min(self._now + self._kettles[task.choice.place].left, task.start + last)
        return None

    def _look_round(self) -> None:
        """Whoever is on its way to a counter that has just been emptied or filled gives up with the next step."""
        for task in self._tasks:
            if task is not None and not task.failed and self._absent(task.choice):
                task.failed, task.due = TARGET_ABSENT, self._now
                task.walk = task.walk[: self._now - task.start + 1]

    def _pose(self, seat: int) -> int:
        """Where a chef is now."""
        task = self._tasks[seat]
        if task is None or not task.walk:
            return self._poses[seat]
        return task.walk[min(self._now - task.start, len(task.walk) - 1)]

    def _pass(self, steps: int) -> None:
        """Time goes by, and chefs walk on."""
        if self._watch is None:
            self._boil(steps)
            self._now += steps
            return
        for _ in range(steps):
            self._boil(1)
            self._now += 1
            self._show(self._watch)

    # --- two chefs in one room ---

    def play_together(self) -> list[Row]:
        """Plays to the horizon where chefs can meet, step by step."""
        while self._now < self._horizon:
            for seat in self._seats:
                if self._tasks[seat] is None:
                    self._begin(seat).rank = (self._now, self._lot(seat))
            first, second = self._tasks
            assert first is not None
            assert second is not None
            self._move_on((first, second))
            if self._watch is not None:
                self._show(self._watch)
        return self._rows

    def _move_on(self, tasks: tuple[Task, Task]) -> None:
        for task in tasks:
            if not task.failed and self._absent(task.choice):
                task.failed = TARGET_ABSENT
        lead = tasks[0].rank < tasks[1].rank
        joint = self._routes.joint(self._part(0, tasks[0]), self._part(1, tasks[1]), lead)
        before = self._interact([seat for seat in self._seats if joint.actions[seat] == INTERACT])
        self._boil(1)
        self._now += 1
        self._poses[:] = joint.poses
        ends = self._judge(before)
        for seat, task in enumerate(tasks):
            verdict = ends.get(seat) or self._over(task)
            if verdict is not None:
                self._end(seat, verdict)
                continue
            task.grants = joint.grants[seat]
            if joint.yielded[seat]:
                task.rank = (self._now, self._lot(seat))

    def _part(self, seat: int, task: Task) -> Part:
        choice, pose = task.choice, self._poses[seat]
        if task.failed or choice.place < 0:
            return HOLD, pose, _NOWHERE, 0, False
        patient = choice.option.plates and self._held[seat] == "dish" and self._kettles[choice.place].phase == "cooking"
        wish = GO
        if self._layout.alone[choice.place][pose] == 0:
            wish = HOLD if patient else ACT
        return wish, pose, choice.place, task.grants, patient

    def _over(self, task: Task) -> Verdict | None:
        """How an option that did not act ended with this step, if it did."""
        age = self._now - task.start
        if task.failed:
            return _explicit(task.failed)
        if task.choice.place < 0:
            return _WAITED if age >= WAIT_STEPS else None
        return _TIMED_OUT if age >= task.choice.option.timeout else None

    def _lot(self, seat: int) -> int:
        return lot(self._seed, self._now, seat)

    # --- the engine ---

    def _interact(self, acting: Sequence[int]) -> list[tuple[int, Choice, Look]]:
        """Lets seats interact at once; what each effect saw before."""
        if not acting:
            return []
        before = []
        for seat in acting:
            task = self._tasks[seat]
            assert task is not None
            before.append((seat, task.choice, self._look(seat, task.choice)))
            self._stand(seat, self._pose(seat))
        self._resolve(self._state, _INTERACTS[tuple(acting)], self._flags)
        for seat, choice, _ in before:
            self._held[seat] = _held(self._players[seat])
            if choice.pot:
                self._look_into(choice.place, choice.cell)
            elif choice.option.counters:
                self._counters = [None, None]
        return before

    def _judge(self, before: list[tuple[int, Choice, Look]]) -> dict[int, Verdict]:
        return {s: self._choices.verdict(choice, look, self._look(s, choice)) for s, choice, look in before}

    def _end(self, seat: int, verdict: Verdict) -> None:
        task = self._tasks[seat]
        assert task is not None
        self._tasks[seat] = None
        self._rows.append(Row(task.start, seat, task.choice.instance, task.features, *verdict))

    def _look(self, seat: int, choice: Choice) -> Look:
        if choice.pot:
            kettle = self._kettles[choice.place]
            return self._held[seat], kettle.contents, kettle.phase
        return self._held[seat], (), self._item(choice)

    def _item(self, choice: Choice) -> str:
        item = self._objects.get(choice.cell)
        return "none" if item is None else str(item.name)

    def _absent(self, choice: Choice) -> bool:
        """Has the counter's item, or the free counter, gone?"""
        return choice.option.counters and (choice.cell in self._objects) is not choice.option.takes

    def _look_into(self, place: int, cell: Cell) -> None:
        kettle, soup = self._kettles[place], self._objects.get(cell)
        kettle.soup = soup
        kettle.contents = () if soup is None else tuple(sorted([part.name for part in soup._ingredients]))
        kettle.cook_time = self._layout.times.get(kettle.contents, 0)
        kettle.idle = pot_state(kettle.contents, "idle" if kettle.contents else "empty")
        if kettle.phase == "cooking" and all(soup is not known for known, _ in self._boiling):
            self._boiling.append((soup, kettle.cook_time))

    def _boil(self, steps: int) -> None:
        """What `step_environment_effects` does in so many steps."""
        if not self._boiling:
            return
        for soup, cook_time in self._boiling:
            soup._cooking_tick = min(soup._cooking_tick + steps, cook_time)
        self._boiling = [(soup, time) for soup, time in self._boiling if soup._cooking_tick < time]

    def _stand(self, seat: int, pose: int) -> None:
        self._players[seat].update_pos_and_or(self._layout.cells[pose >> 2], DIRECTIONS[pose & 3])

    def _show(self, watch: Watcher) -> None:
        for seat in (0, 1):
            self._stand(seat, self._pose(seat))
        self._state.timestep = self._now
        watch(self._engine.state_bytes())


def _held(player: Any) -> str:
    return "none" if player.held_object is None else str(player.held_object.name)


@cache
def _explicit(reason: str) -> Verdict:
    return Verdict(f"explicit:{reason}", None, None)
