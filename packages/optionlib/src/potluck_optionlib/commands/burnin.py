"""`potluck-optionlib burnin`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from potluck_optionlib.burnin import Burnin, BurninPlan, play_folder, save
from potluck_optionlib.burnin.folder import SHARD_EPISODES
from potluck_optionlib.commands.console import ERRORS, say
from potluck_optionlib.commands.files import check_output
from potluck_optionlib.commands.play import play, shown
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.games import make_game


@dataclass(frozen=True)
class BurninCommand:
    """Plays uniformly over the unguarded candidates and writes the records as Parquet.

    Into a folder it is played by as many processes as asked for, sealed shard by shard, and the same command goes on
    where an earlier one stopped. A name that ends in .parquet is written as one file at the end.
    """

    game: tyro.conf.Positional[str]
    """Full name, e.g. overcooked/forced_coordination."""
    out: Path
    """Folder, or .parquet file, to write."""
    solo_episodes: int = 200
    """Episodes with every partner a no-op, seats in turn."""
    team_episodes: int = 200
    """Episodes with all seats playing."""
    seed: int = 0
    """All randomness comes from here."""
    horizon: int = 400
    """Primitive steps an episode."""
    workers: int = 1
    """Processes that play into a folder."""
    shard_episodes: int = SHARD_EPISODES
    """Episodes a shard, where the folder is new."""

    def run(self) -> None:
        plan = BurninPlan(self.solo_episodes, self.team_episodes, self.seed, self.horizon)
        began = time.monotonic()
        if self.out.suffix == ".parquet":
            if self.workers > 1:
                raise OptionlibError("--workers: a single file is played by one process. Name a folder with --out.")
            check_output(self.out)
            result = play(self.game, plan)
            save(result, self.out)
        else:
            result = self._play_folder(plan)
        for (option, kind), count in sorted(result.raised.items()):
            ERRORS.print(f"{option}: raised {kind} {count} times; each such episode ended there", highlight=False)
        say(f"{self.out}: {result.records} records, digest {result.digest}, {time.monotonic() - began:.1f} s")

    def _play_folder(self, plan: BurninPlan) -> Burnin:
        with shown(self.game, plan) as display:
            return play_folder(
                partial(make_game, self.game),
                plan,
                self.out,
                workers=self.workers,
                shard_episodes=self.shard_episodes,
                progress=display.update,
                report=lambda line: ERRORS.print(line, highlight=False, soft_wrap=True),
            )
