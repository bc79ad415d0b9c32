"""Checks a guard library against play that it was not mined from."""

from __future__ import annotations

from dataclasses import dataclass

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.guards import GuardLibrary


@dataclass(frozen=True, slots=True)
class Verification:
    """What fresh play said about the guards."""

    checked: int
    """Executions that started under an inferred guard."""
    successes: int
    """Of these, the ones that succeeded: each is a guard that forbids something possible."""
    lines: tuple[str, ...]
    """One per success."""


def verify(library: GuardLibrary, fresh: Burnin) -> Verification:
    """Fresh records under the library's guards; raises where the contracts differ."""
    library.check(fresh.contracts_digest)
    checked = 0
    lines = []
    for record in fresh.records:
        attributable = record.solo or record.option not in fresh.solo_only
        if not attributable or not library.forbids(record.option, record.features):
            continue
        checked += 1
        if record.outcome == "success":
            when = " & ".join(f"{name} = {value}" for name, value in record.features.items())
            lines.append(f"{record.option}@{record.target} with {when} succeeded in episode {record.episode}")
    return Verification(checked, len(lines), tuple(lines))
