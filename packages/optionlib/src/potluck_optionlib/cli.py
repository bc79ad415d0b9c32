"""The command `potluck-optionlib`: burn-in, mining, verification and a report of guard libraries.

Games come from installed packages through the entry points of the group `potluck.games`.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from potluck_optionlib import burnin as burnin_module
from potluck_optionlib.burnin import Burnin, BurninPlan
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.games import make_game
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.mining import MIN_SUPPORT, mine
from potluck_optionlib.verify import verify

_ERRORS = Console(stderr=True)


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
        result = _play(self.game, plan)
        result.save(self.out)
        print(f"{self.out}: {len(result.records)} records, digest {result.digest}")


@dataclass(frozen=True)
class MineCommand:
    """Mines a guard library from one or several burn-in files under the same contracts."""

    burnins: tyro.conf.Positional[tuple[Path, ...]]
    """Burn-in files."""
    out: Path
    """JSON file to write."""
    min_support: int = MIN_SUPPORT
    """Failures that a guard needs."""

    def run(self) -> None:
        library = mine([burnin_module.load(path) for path in self.burnins], self.min_support)
        self.out.write_text(library.dump(), "utf-8")
        print(f"{self.out}: {len(library.guards)} guards, digest {library.digest}")


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
        found = verify(library, _play(self.game, BurninPlan(self.solo_episodes, self.team_episodes, self.seed)))
        for line in found.lines:
            print(line)
        print(f"{found.checked} guarded executions replayed, {found.successes} succeeded")
        if found.successes:
            raise SystemExit(1)


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


def _play(game: str, plan: BurninPlan) -> Burnin:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_ERRORS, disable=not _ERRORS.is_terminal) as bar:
        task = bar.add_task(game, total=plan.solo_episodes + plan.team_episodes)
        return burnin_module.run(make_game(game), plan, lambda done, total: bar.update(task, completed=done))


def _table(library: GuardLibrary) -> Table:
    table = Table("option", "channel", "left out when", "support")
    for guard in library.guards:
        when = " & ".join(f"{name} = {value}" for name, value in guard.when.items())
        table.add_row(guard.option, guard.channel.value, when, str(guard.support))
    return table


Command = (
    Annotated[BurninCommand, tyro.conf.subcommand("burnin")]
    | Annotated[MineCommand, tyro.conf.subcommand("mine")]
    | Annotated[VerifyCommand, tyro.conf.subcommand("verify")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
)


def main(args: list[str] | None = None) -> None:
    """Entry point."""
    command: BurninCommand | MineCommand | VerifyCommand | ReportCommand = tyro.cli(
        Command,
        args=args,
        prog="potluck-optionlib",
        description=__doc__,
    )
    try:
        command.run()
    except (OptionlibError, OSError) as error:
        _ERRORS.print(f"potluck-optionlib: {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
