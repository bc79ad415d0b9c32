"""`potluck-optionlib verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import Burnin, load
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.files import read_library
from potluck_optionlib.commands.remine import replay
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.verify import rederive


@dataclass(frozen=True)
class VerifyCommand:
    """Re-derives every certificate of a guard library from its records; exit code 1 if any does not hold."""

    library: tyro.conf.Positional[Path]
    """Guard library, JSON."""
    burnin: tuple[Path, ...] = ()
    """The burn-ins that the certificate names, files or folders; without any they are played again."""

    def run(self) -> None:
        library = read_library(self.library)
        findings = rederive(library, self._burnins(library))
        for finding in findings:
            say(f"{finding.flaw}: {finding.text}")
        if findings:
            say(f"{self.library}: {len(findings)} findings")
            raise SystemExit(1)
        say(f"{self.library}: {len(library.guards)} certificates hold, digest {library.digest}")

    def _burnins(self, library: GuardLibrary) -> Sequence[Burnin]:
        return [load(path) for path in self.burnin] if self.burnin else replay(library)
