"""`potluck-audit paper`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from potluck_audit.commands.console import say


@dataclass(frozen=True)
class PaperCommand:
    """Reproduce the audit figures of Mao & Perrault (arXiv:2608.01425) on audited runs.

    Option histograms and solo tests (Overcooked), patch survival (Harvest), roles and heat maps (Cleanup), each beside
    the paper's numbers, with what its reading leaves out. Reads RUN/audit/results.json; writes paper-audit.md and SVG
    files. Exit status: 0, 1 for an error.
    """

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Audited run folders, such as runs/demo."""
    out: Path = Path("paper-audit")
    """Folder for the page and its figures."""
    theme: Literal["light", "dark"] = "light"
    """Of the figures."""

    def run(self) -> int:
        from potluck_audit.errors import InvalidRequest
        from potluck_audit.paper.page import paper_audit

        try:
            for file in paper_audit(self.folders, self.out, self.theme):
                say(str(file))
        except OSError as error:
            cure = "give a folder that can be written"
            raise InvalidRequest("out", f"{self.out} takes no files ({error.strerror})", cure) from error
        return 0
