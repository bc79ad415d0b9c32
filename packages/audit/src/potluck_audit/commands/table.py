"""`potluck-audit table`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from potluck_audit.commands.console import say, tell
from potluck_audit.errors import InvalidRequest

Name = Literal[
    "teams", "differences", "credit", "behaviour", "handoffs", "flow", "labour", "commons", "training", "metrics"
]


@dataclass(frozen=True)
class TableCommand:
    """Print an audit's numbers as tables for a paper or a spreadsheet.

    Reads RUN/audit/results.json, which `potluck-audit run` wrote. LaTeX needs the package booktabs. Exit status: 0,
    1 for an error.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    format: Literal["latex", "markdown", "csv"] = "markdown"
    """How they are written."""
    table: tuple[Name, ...] = ()
    """Which; by default all but `training` and `metrics`, and in CSV `metrics`, which holds every figure."""
    out: Path | None = None
    """Folder for one file a table, in place of standard output."""

    def run(self) -> int:
        from potluck_audit.results import write_file
        from potluck_audit.saved import load_results
        from potluck_audit.tables import DEFAULT, FORMATS, grid
        from potluck_audit.tables.formats import SUFFIXES

        names = self.table or (("metrics",) if self.format == "csv" else DEFAULT)
        if self.format == "csv" and len(names) > 1 and self.out is None:
            raise InvalidRequest("table", "several tables make no CSV", "name one, or give --out for a file each")
        results = load_results(self.folder)
        for check in results.checks:
            if check.passed is False:
                tell(f"FAILED {check.set}: {check.name} ({check.detail})")
        for name in names:
            found = grid(results, name)
            if not found.rows:
                if self.table:
                    tell(f"{name}: nothing of the kind was measured")
            elif self.out:
                file = self.out / f"{name}{SUFFIXES[self.format]}"
                say(str(write_file(file, FORMATS[self.format](found))))
            else:
                sys.stdout.write(FORMATS[self.format](found) + ("\n" if len(names) > 1 else ""))
        return 0
