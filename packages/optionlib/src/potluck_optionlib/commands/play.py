"""Plays a burn-in with a progress bar."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from potluck_optionlib.burnin import Burnin, BurninPlan, run
from potluck_optionlib.commands.console import ERRORS
from potluck_optionlib.games import make_game


def play(game: str, plan: BurninPlan) -> Burnin:
    """The burn-in of a game by name."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERRORS, disable=not ERRORS.is_terminal) as bar:
        task = bar.add_task(game, total=plan.solo_episodes + plan.team_episodes)
        return run(make_game(game), plan, lambda done, total: bar.update(task, completed=done))
