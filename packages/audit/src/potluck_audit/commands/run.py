"""`potluck-audit run`."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from potluck.telemetry import setup
from potluck_audit.commands.console import SERVICE, say, tell

if TYPE_CHECKING:
    from potluck_audit.audit import AuditOutcome

CHECK_FAILED = 3


@dataclass(frozen=True)
class RunCommand:
    """Audit one run folder and write its report.

    Measures what the run recorded: returns, options, idling, deliveries, hand-offs, visits. With --envs the report
    gains a replay; with --policy as well, solo values, synergy, necessity and Shapley credit are played and added.
    Writes RUN/audit/results.json and RUN/report.html. Exit status: 0, 1 for an error, 3 when a check failed.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    envs: str = ""
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    sets: tuple[str, ...] = ()
    """Episode sets such as eval/trained; by default all."""
    confidence: float = 0.95
    """Of the intervals."""
    report: bool = True
    """Write report.html."""
    seeds: tuple[Path, ...] = ()
    """Runs of other training seeds, whose division of labour is compared with this one's."""
    coalitions: int = 16
    """Up to so many coalitions are played; with fewer than all, credit is sampled or, below that, not given."""

    def run(self) -> int:
        return asyncio.run(self._audit())

    async def _audit(self) -> int:
        from potluck_audit.audit import AuditRequest, run_audit

        logging.basicConfig(level="WARNING", stream=sys.stderr)
        request = AuditRequest(
            run=self.folder,
            sets=self.sets,
            envs=tuple(part.strip() for part in self.envs.split(",") if part.strip()),
            policy=self.policy,
            confidence=self.confidence,
            report=self.report,
            seeds=self.seeds,
            coalitions=self.coalitions,
        )
        setup.configure(SERVICE)
        try:
            outcome = await run_audit(request, _show_stage)
        finally:
            await asyncio.to_thread(setup.shutdown)
        _summarise(outcome)
        return CHECK_FAILED if outcome.results.failed else 0


def _show_stage(name: str, done: int, total: int) -> None:
    count = f" {done}/{total}" if total else ""
    tell(f"{name}{count}")


def _summarise(outcome: AuditOutcome) -> None:
    results = outcome.results
    for metric in results.all("return", key=""):
        found = metric.estimate
        if found.value is None:
            say(f"{metric.set}: return undefined")
            continue
        say(f"{metric.set}: {found.text()} {metric.unit}, {found.episodes} episodes")
    for check in results.failed:
        say(f"FAILED {check.set}: {check.name} ({check.detail})")
    if outcome.kept:
        say(f"kept    {outcome.kept}: the audit before this one holds more (it had servers, or more sets)")
    say(f"results {outcome.results_path}")
    if outcome.report_path:
        say(f"report  {outcome.report_path}")
