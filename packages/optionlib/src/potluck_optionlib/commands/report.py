"""`potluck-optionlib report`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from potluck_optionlib.guards import GuardLibrary


@dataclass(frozen=True)
class ReportCommand:
    """Prints a guard library as a table, with its certificate."""

    library: tyro.conf.Positional[Path]
    """Guard library, JSON."""

    def run(self) -> None:
        library = GuardLibrary.parse(self.library.read_text("utf-8"))
        console = Console()
        console.print(_table(library))
        per_option = Counter(guard.option for guard in library.guards)
        console.print(", ".join(f"{option} {count}" for option, count in sorted(per_option.items())))
        if library.certificate is not None:
            for burnin in library.certificate.burnins:
                console.print(f"{burnin.game}: {burnin.records} records, seed {burnin.seed}, {burnin.digest[:12]}")
        console.print(f"digest {library.digest}")


def _table(library: GuardLibrary) -> Table:
    table = Table("option", "channel", "left out when", "support")
    for guard in library.guards:
        when = " & ".join(f"{name} = {value}" for name, value in guard.when.items())
        table.add_row(guard.option, guard.channel.value, when, str(guard.support))
    return table
