"""`potluck-optionlib heldout`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import BurninPlan, load
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.files import named_library
from potluck_optionlib.commands.play import play
from potluck_optionlib.heldout import hold_out


@dataclass(frozen=True)
class HeldOutCommand:
    """Counts successes of fresh play that a library would have hidden; exit code 1 if there is any."""

    game: tyro.conf.Positional[str]
    """Full name."""
    library: tyro.conf.Positional[Path | None] = None
    """Guard library, JSON; the shipped one if not given."""
    burnin: Path | None = None
    """A fresh burn-in that is there already, instead of playing one."""
    solo_episodes: int = 20
    """Fresh episodes with every partner a no-op."""
    team_episodes: int = 20
    """Fresh episodes with all seats playing."""
    seed: int = 1_000_000
    """Another seed than the library's."""

    def run(self) -> None:
        library, _ = named_library(self.game, self.library)
        plan = BurninPlan(self.solo_episodes, self.team_episodes, self.seed)
        found = hold_out(library, load(self.burnin) if self.burnin else play(self.game, plan))
        for line in found.lines:
            say(line)
        say(f"{self.game}: {found.text}")
        if found.hidden:
            raise SystemExit(1)
