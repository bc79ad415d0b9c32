"""`potluck-optionlib burnin`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import BurninPlan
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.play import play


@dataclass(frozen=True)
class BurninCommand:
    """Plays uniformly over the unguarded candidates and writes the records as Parquet."""

    game: tyro.conf.Positional[str]
    """Full name, e.g. overcooked/forced_coordination."""
    out: Path
    """Parquet file to write."""
    solo_episodes: int = 200
    """Episodes with every partner a no-op, seats in turn."""
    team_episodes: int = 200
    """Episodes with all seats playing."""
    seed: int = 0
    """All randomness comes from here."""
    horizon: int = 400
    """Primitive steps an episode."""

    def run(self) -> None:
        plan = BurninPlan(self.solo_episodes, self.team_episodes, self.seed, self.horizon)
        result = play(self.game, plan)
        result.save(self.out)
        say(f"{self.out}: {len(result.records)} records, digest {result.digest}")
