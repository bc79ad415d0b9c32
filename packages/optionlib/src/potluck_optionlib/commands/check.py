"""`potluck-optionlib check`."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from potluck_optionlib.burnin.errors import BurninPlanError
from potluck_optionlib.commands.console import say
from potluck_optionlib.games import make_game
from potluck_optionlib.validation import check
from potluck_optionlib.validation.check import EPISODES


@dataclass(frozen=True)
class CheckCommand:
    """Says what is wrong with a game's contracts; exit code 1 if anything is."""

    game: tyro.conf.Positional[str]
    """Full name."""
    episodes: int = EPISODES
    """Random episodes to watch."""
    seed: int = 0
    """All randomness comes from here."""

    def run(self) -> None:
        if self.episodes < 0:
            raise BurninPlanError(f"check: episodes must be 0 or more, not {self.episodes}.")
        game = make_game(self.game)
        faults = check(game, self.episodes, self.seed)
        for fault in faults:
            say(f"{fault.rule}: {fault.text}")
        say(f"{self.game}: {len(faults)} faults" if faults else f"{self.game}: the contracts keep every rule")
        if faults:
            raise SystemExit(1)
