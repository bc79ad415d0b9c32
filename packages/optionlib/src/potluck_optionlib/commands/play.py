"""Shows how far a burn-in has come: a bar in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from potluck_optionlib.burnin import Burnin, BurninPlan, Progress, run
from potluck_optionlib.commands.console import ERRORS
from potluck_optionlib.games import make_game

_LINE_SECONDS = 20.0


def play(game: str, plan: BurninPlan) -> Burnin:
    """The burn-in of a game by name, in this process."""
    with shown(game, plan) as show:
        return run(make_game(game), plan, lambda done, total: show.update(Progress(done, total, 0, None)))


@contextmanager
def shown(game: str, plan: BurninPlan) -> Iterator[Display]:
    """A display of a burn-in's progress."""
    speed = TextColumn("{task.fields[speed]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), speed, TimeRemainingColumn())
    with Bar(*columns, console=ERRORS, disable=not ERRORS.is_terminal) as bar:
        yield Display(bar, bar.add_task(game, total=plan.episodes, speed=""), game)


@contextmanager
def counted(game: str, decisions: int) -> Iterator[Callable[[int], None]]:
    """A display of how many of so many decisions there are; takes the count."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=ERRORS, disable=not ERRORS.is_terminal) as bar:
        task, spoken = bar.add_task(game, total=decisions), time.monotonic()

        def update(seen: int) -> None:
            nonlocal spoken
            bar.update(task, completed=seen)
            if not ERRORS.is_terminal and time.monotonic() - spoken >= _LINE_SECONDS:
                spoken = time.monotonic()
                ERRORS.print(f"{game}: {seen}/{decisions} decisions", highlight=False, soft_wrap=True)

        yield update


class Display:
    """Takes progress and shows it."""

    def __init__(self, bar: Bar, task: TaskID, game: str) -> None:
        self._bar, self._task, self._game = bar, task, game
        self._began = self._spoken = time.monotonic()

    def update(self, now: Progress) -> None:
        """Shows the present state of play."""
        clock = time.monotonic()
        elapsed = max(clock - self._began, 1e-9)
        speed = "" if now.decisions is None else f"{now.decisions} decisions, {now.decisions / elapsed:.0f}/s"
        self._bar.update(self._task, completed=now.done, speed=speed)
        if not ERRORS.is_terminal and clock - self._spoken >= _LINE_SECONDS:
            self._spoken = clock
            played = now.done - now.found
            left = elapsed / played * (now.total - now.done) if played else 0.0
            parts = (f"{self._game}: {now.done}/{now.total} episodes", speed, f"{left:.0f} s left")
            ERRORS.print(", ".join(filter(None, parts)), highlight=False, soft_wrap=True)
