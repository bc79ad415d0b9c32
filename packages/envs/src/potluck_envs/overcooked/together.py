"""Burn-in of two chefs in one room, who can get in each other's way: step by step, each joint step looked up."""

from __future__ import annotations

from potluck_envs.overcooked.choices import Verdict
from potluck_envs.overcooked.layout import INTERACT
from potluck_envs.overcooked.options import TARGET_ABSENT, WAIT_STEPS
from potluck_envs.overcooked.rounds import TIMED_OUT, WAITED, Round, Task, explicit
from potluck_envs.overcooked.routes import ACT, GO, HOLD, Part
from potluck_optionlib.burnin import Row
from potluck_optionlib.planners import lot


class Together(Round):
    """One such episode."""

    def play(self) -> list[Row]:
        """Plays to the horizon."""
        while self._now < self._horizon:
            first = self._tasks[0] or self._set_out(0)
            second = self._tasks[1] or self._set_out(1)
            self._step(first, second)
            if self._watch is not None:
                self._show(self._watch)
        return self._rows

    def _set_out(self, seat: int) -> Task:
        choice = self._draw(seat)
        features = self._choices.features(choice, self._held[seat], self._what(choice))
        task = self._tasks[seat] = Task(choice, self._now, features, self._explicit(seat, choice))
        task.rank, task.grants = (self._now, self._lot(seat)), 0
        return task

    def _step(self, *tasks: Task) -> None:
        for task in tasks:
            if not task.failed and self._absent(task.choice):
                task.failed = TARGET_ABSENT
        older = tasks[0].rank < tasks[1].rank
        joint = self._routes.joint(self._part(0, tasks[0]), self._part(1, tasks[1]), older)
        acting = [(seat, tasks[seat].choice) for seat in (0, 1) if joint.actions[seat] == INTERACT]
        before = {seat: self._look(seat, choice) for seat, choice in acting}
        if acting:
            for seat in before:
                self._stand(seat, self._poses[seat])
            self._interact(acting)
        if self._boiling:
            self._boil(1)
        self._now += 1
        self._poses[:] = joint.poses
        for seat, task in enumerate(tasks):
            if seat in before:
                verdict = self._choices.verdict(task.choice, before[seat], self._look(seat, task.choice))
                self._end(seat, task, verdict)
            elif over := self._over(task):
                self._end(seat, task, over)
            else:
                task.grants = joint.grants[seat]
                if joint.yielded[seat]:
                    task.rank = (self._now, self._lot(seat))

    def _part(self, seat: int, task: Task) -> Part:
        choice, pose = task.choice, self._poses[seat]
        if task.failed or choice.place < 0:
            return HOLD, pose, -1, 0, False
        patient = choice.option.plates and self._held[seat] == "dish" and self._kettles[choice.place].phase == "cooking"
        if self._layout.alone[choice.place][pose]:
            return GO, pose, choice.place, task.grants, patient
        return HOLD if patient else ACT, pose, choice.place, task.grants, patient

    def _over(self, task: Task) -> Verdict | None:
        """How an option that did not act ended with this step, if it did."""
        age = self._now - task.start
        if task.failed:
            return explicit(task.failed)
        if task.choice.place < 0:
            return WAITED if age >= WAIT_STEPS else None
        return TIMED_OUT if age >= task.choice.option.timeout else None

    def _lot(self, seat: int) -> int:
        return lot(self._seed, self._now, seat)
