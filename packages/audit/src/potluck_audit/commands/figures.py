"""`potluck-audit figures`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from potluck_audit.commands.console import say, tell


@dataclass(frozen=True)
class FiguresCommand:
    """Write the report's charts as SVG files.

    Reads RUN/audit/results.json, which `potluck-audit run` wrote: reward and cooperation over training, option shares
    by decisions and by time, visits, hand-offs, patches, coalitions, credit and interactions.
    Exit status: 0, 1 for an error.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    out: Path = Path("figures")
    """Folder for the files."""
    theme: Literal["light", "dark"] = "light"
    """The report's light or dark colours."""

    def run(self) -> int:
        from potluck_audit.errors import InvalidRequest
        from potluck_audit.figures import figures
        from potluck_audit.results import write_file
        from potluck_audit.saved import load_results

        results = load_results(self.folder)
        for check in results.checks:
            if check.passed is False:
                tell(f"FAILED {check.set}: {check.name} ({check.detail})")
        try:
            for name, chart in figures(results, self.theme):
                say(str(write_file(self.out / name, chart)))
        except OSError as error:
            cure = "give a folder that can be written"
            raise InvalidRequest("out", f"{self.out} takes no files ({error.strerror})", cure) from error
        return 0
