"""`potluck-optionlib heldout`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from potluck_optionlib.burnin import BurninPlan, load
from potluck_optionlib.burnin.errors import BurninPlanError
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.files import named_library
from potluck_optionlib.commands.play import counted, play
from potluck_optionlib.fresh import Fresh, hold_out_fresh
from potluck_optionlib.games import make_game
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.heldout import HeldOut, hold_out


@dataclass(frozen=True)
class HeldOutCommand:
    """Counts successes of fresh play that a library would have hidden; exit code 1 if there is any."""

    game: tyro.conf.Positional[str]
    """Full name."""
    library: tyro.conf.Positional[Path | None] = None
    """Guard library, JSON; the shipped one if not given."""
    burnin: Path | None = None
    """A fresh burn-in that is there already, instead of playing one."""
    decisions: int | None = None
    """Play round after round of the episodes below, each with the next seed, until there are so many decisions."""
    workers: int = 1
    """Processes that play, with --decisions."""
    solo_episodes: int = 20
    """Fresh episodes with every partner a no-op."""
    team_episodes: int = 20
    """Fresh episodes with all seats playing."""
    seed: int = 1_000_000
    """Another seed than the library's."""
    horizon: int = 400
    """Primitive steps an episode."""

    def run(self) -> None:
        if self.decisions is not None and (self.decisions < 1 or self.burnin is not None):
            raise BurninPlanError("--decisions must be 1 or more, and goes with fresh play, not with --burnin.")
        if self.workers < 1 or (self.workers > 1 and self.decisions is None):
            raise BurninPlanError("--workers must be 1 or more, and goes with --decisions.")
        library, _ = named_library(self.game, self.library)
        found = self._held_out(library)
        for line in found.lines:
            say(line)
        say(f"{self.game}: {found.text}")
        if found.hidden:
            raise SystemExit(1)

    def _held_out(self, library: GuardLibrary) -> HeldOut:
        plan = BurninPlan(self.solo_episodes, self.team_episodes, self.seed, self.horizon)
        if self.decisions is None:
            return hold_out(library, load(self.burnin) if self.burnin else play(self.game, plan))
        fresh = Fresh(partial(make_game, self.game), library, plan)
        with counted(self.game, self.decisions) as progress:
            return hold_out_fresh(fresh, self.decisions, self.workers, progress)
