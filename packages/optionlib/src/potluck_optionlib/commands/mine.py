"""`potluck-optionlib mine`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import load
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.files import check_output, write_text
from potluck_optionlib.mining import MIN_SUPPORT, mine


@dataclass(frozen=True)
class MineCommand:
    """Mines a guard library from one or several burn-in files under the same contracts."""

    burnins: tyro.conf.Positional[tuple[Path, ...]]
    """Burn-in files or folders."""
    out: Path
    """JSON file to write."""
    min_support: int = MIN_SUPPORT
    """Failures that a guard needs."""

    def run(self) -> None:
        check_output(self.out)
        library = mine([load(path) for path in self.burnins], self.min_support)
        write_text(self.out, library.dump())
        say(f"{self.out}: {len(library.guards)} guards, digest {library.digest}")
