"""`potluck-optionlib report`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from potluck_optionlib.commands.files import read_library
from potluck_optionlib.guards import GuardLibrary


@dataclass(frozen=True)
class ReportCommand:
    """Prints a guard library as a table, with its certificate."""

    library: tyro.conf.Positional[Path]
    """Guard library, JSON."""

    def run(self) -> None:
        library = read_library(self.library)
        console = Console()
        console.print(_table(library))
        per_option = Counter(guard.option for guard in library.guards)
        console.print(", ".join(f"{option} {count}" for option, count in sorted(per_option.items())))
        if library.certificate is not None:
            head = library.certificate
            console.print(f"at least {head.min_support} failures, no success, up to {head.max_literals} literals")
            for burnin in head.burnins:
                plan = f"{burnin.solo_episodes} solo and {burnin.team_episodes} team episodes, seed {burnin.seed}"
                lost = f", {burnin.raised} raised, {burnin.incomplete} with a missing feature"
                counted = f"{burnin.records} records{lost if burnin.raised or burnin.incomplete else ''}"
                console.print(f"{burnin.game}: {counted}, {plan}, {burnin.digest[:12]}")
        console.print(f"digest {library.digest}")


def _table(library: GuardLibrary) -> Table:
    numbers = ("support", "solo", "team", "timeouts")
    table = Table("option", "channel", "left out when")
    for name in numbers:
        table.add_column(name, justify="right")
    for guard in library.guards:
        when = " & ".join(f"{name} = {value}" for name, value in guard.when.items())
        parts = [sum(getattr(part, name) for part in guard.supports) for name in numbers[1:]]
        table.add_row(guard.option, guard.channel.value, when, str(guard.support), *map(str, parts))
    return table
