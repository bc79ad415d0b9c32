"""`potluck-optionlib suspect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from potluck_optionlib.burnin import load
from potluck_optionlib.burnin.errors import EmptyBurninError
from potluck_optionlib.commands.console import ERRORS, say
from potluck_optionlib.commands.files import check_output, read_library, write_text
from potluck_optionlib.errors import UnknownGameError
from potluck_optionlib.games import make_game
from potluck_optionlib.mining import mine
from potluck_optionlib.suspicion import examine
from potluck_optionlib.suspicion.show import page, table


@dataclass(frozen=True)
class SuspectCommand:
    """Looks for patterns of faulty contracts in burn-ins; exit code 1 if there is any."""

    burnins: tyro.conf.Positional[tuple[Path, ...]]
    """Burn-ins of one game, files or folders."""
    library: Path | None = None
    """Its guard library; mined from the burn-ins if not given."""
    html: Path | None = None
    """Where to write the report as a page."""

    def run(self) -> None:
        if not self.burnins:
            raise EmptyBurninError("suspect: burnins is empty, so there is nothing to look at. Name a burn-in.")
        if self.html is not None:
            check_output(self.html)
        burnins = [load(path) for path in self.burnins]
        library = read_library(self.library) if self.library else mine(burnins)
        found = examine(burnins, library, options=_options([burnin.game for burnin in burnins]))
        if self.html is not None:
            write_text(self.html, page(burnins, library, found))
            say(f"{self.html}: written")
        if not found:
            say("no pattern of a faulty contract")
            return
        Console().print(table(found))
        raise SystemExit(1)


def _options(games: Sequence[str]) -> Sequence[str]:
    try:
        return [option for game in dict.fromkeys(games) for option in make_game(game).spec.options]
    except UnknownGameError as error:
        ERRORS.print(f"options that nobody chose are not looked for: {error}", highlight=False, soft_wrap=True)
        return []
