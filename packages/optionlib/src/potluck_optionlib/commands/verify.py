"""`potluck-optionlib verify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import BurninPlan
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.play import play
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.verify import verify


@dataclass(frozen=True)
class VerifyCommand:
    """Replays fresh random play against a library: no success under a guard, contracts as mined."""

    game: tyro.conf.Positional[str]
    """Full name."""
    library: tyro.conf.Positional[Path]
    """Guard library, JSON."""
    solo_episodes: int = 20
    """Fresh episodes with every partner a no-op."""
    team_episodes: int = 20
    """Fresh episodes with all seats playing."""
    seed: int = 1_000_000
    """Another seed than the burn-in's."""

    def run(self) -> None:
        library = GuardLibrary.parse(self.library.read_text("utf-8"))
        found = verify(library, play(self.game, BurninPlan(self.solo_episodes, self.team_episodes, self.seed)))
        for line in found.lines:
            say(line)
        say(f"{found.checked} guarded executions replayed, {found.successes} succeeded")
        if found.successes:
            raise SystemExit(1)
