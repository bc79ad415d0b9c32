"""Burn-in of chefs that nobody gets in the way of: alone, beside a no-op, or each in a room of its own.

Where such a chef goes is known when it sets out, so an episode jumps from one end of an option to the next.
"""

from __future__ import annotations

from potluck_envs.overcooked.choices import Choice, Look, Outset, Verdict
from potluck_envs.overcooked.options import TARGET_ABSENT, WAIT_STEPS
from potluck_envs.overcooked.rounds import TIMED_OUT, WAITED, Round, Task, explicit
from potluck_optionlib.burnin import Row

_NOWHERE = -1


class Apart(Round):
    """One such episode."""

    def play(self) -> list[Row]:
        """Plays to the horizon."""
        tasks, horizon = self._tasks, self._horizon
        seats = (0, 1) if self._actor is None else (self._actor,)
        while True:
            due = horizon
            for seat in seats:
                task = tasks[seat] or self._set_out(seat)
                if task.due < due:
                    due = task.due
            if due > self._now:
                self._pass(due - self._now)
            if due == horizon:
                return self._rows
            self._settle()

    def _set_out(self, seat: int) -> Task:
        """Begins an option: works out the walk, and the step at which something will have to be decided."""
        choice = self._draw(seat)
        key = (choice.number, self._poses[seat], self._held[seat], self._what(choice))
        outsets = self._choices.outsets[self._actor is None]
        outset = outsets.get(key)
        if outset is None:
            outset = outsets[key] = self._outset(seat, choice)
        task = self._tasks[seat] = Task(choice, self._now, outset.features, outset.failed)
        task.walk = outset.walk
        task.due = self._now + outset.steps
        return task

    def _outset(self, seat: int, choice: Choice) -> Outset:
        features = self._choices.features(choice, self._held[seat], self._what(choice))
        failed, pose = self._explicit(seat, choice), self._poses[seat]
        if failed:
            return Outset(features, failed, (pose,), 0)
        if choice.place < 0:
            return Outset(features, "", (pose,), WAIT_STEPS - 1)
        shut_in = self._actor is not None and self._layout.same_room
        walk = self._routes.walk(pose, choice.place, self._poses[1 - seat] >> 2 if shut_in else _NOWHERE)
        return Outset(features, "", walk, min(len(walk), choice.option.timeout) - 1)

    def _settle(self) -> None:
        """The step now: whoever is due ends its option, unless it has reason to stand by."""
        now = self._now
        acting: list[tuple[int, Choice]] = []
        ends: list[tuple[int, Task, Verdict | None, Look | None]] = []
        for seat, task in enumerate(self._tasks):
            if task is None or task.due != now:
                continue
            verdict = self._due(seat, task)
            if verdict is not None:
                ends.append((seat, task, verdict, None))
            elif task.due == now:
                choice = task.choice
                self._stand(seat, task.walk[-1])
                acting.append((seat, choice))
                ends.append((seat, task, None, self._look(seat, choice)))
        if not ends:
            return
        moved = self._interact(acting) if acting else False
        if self._boiling:
            self._boil(1)
        self._now = now + 1
        for seat, task, verdict, look in ends:
            self._poses[seat] = self._pose(seat)
            if look is not None:
                verdict = self._choices.verdict(task.choice, look, self._look(seat, task.choice))
            assert verdict is not None
            self._end(seat, task, verdict)
        if moved:
            self._look_round()
        if self._watch is not None:
            self._show(self._watch)

    def _due(self, seat: int, task: Task) -> Verdict | None:
        """How the option ends with this step; None for a chef that acts, or that stands by and is due later."""
        if task.failed:
            return explicit(task.failed)
        choice, gone = task.choice, self._now - task.start
        if choice.place < 0:
            return WAITED
        if gone < len(task.walk) - 1:
            return TIMED_OUT
        if choice.option.plates and self._held[seat] == "dish" and self._kettles[choice.place].phase == "cooking":
            last = choice.option.timeout - 1
            if gone >= last:
                return TIMED_OUT
            task.due = min(self._now + self._kettles[choice.place].left, task.start + last)
        return None

    def _look_round(self) -> None:
        """Whoever is on its way to a counter that has just been emptied or filled gives up with the next step."""
        for task in self._tasks:
            if task is not None and not task.failed and self._absent(task.choice):
                task.failed, task.due = TARGET_ABSENT, self._now
                task.walk = task.walk[: self._now - task.start + 1]

    def _pose(self, seat: int) -> int:
        task = self._tasks[seat]
        if task is None:
            return self._poses[seat]
        gone, walk = self._now - task.start, task.walk
        return walk[gone] if gone < len(walk) else walk[-1]

    def _pass(self, steps: int) -> None:
        """Time goes by, and chefs walk on."""
        if self._watch is None:
            if self._boiling:
                self._boil(steps)
            self._now += steps
            return
        for _ in range(steps):
            self._boil(1)
            self._now += 1
            self._show(self._watch)
