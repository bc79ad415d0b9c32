"""Judges one reply from its text to its report; each stage runs only if the ones before let the module through.

A module that validation finds fault with is played all the same: the symptoms in play are the best evidence there is.
The two child processes hash strings differently, so a library whose order depends on it plays a different sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from potluck_optionlib.burnin import save
from potluck_optionlib.drafting.endpoints import Reply
from potluck_optionlib.drafting.findings import Finding, Stage
from potluck_optionlib.drafting.journal import Journal
from potluck_optionlib.drafting.judge import unpack
from potluck_optionlib.drafting.messages import Request, Task, Verdict
from potluck_optionlib.drafting.reply import extract
from potluck_optionlib.drafting.report import Report
from potluck_optionlib.drafting.sandbox import Progress, run
from potluck_optionlib.drafting.screen import screen
from potluck_optionlib.drafting.settings import Settings
from potluck_optionlib.guards import GuardLibrary

MODULE, GUARDS, BURNIN = "contracts.py", "guards.json", "burnin.parquet"


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the versions of one draft."""

    settings: Settings
    journal: Journal
    tell: Callable[[str], None]
    progress: Progress | None = None

    def report(self, version: int, reply: Reply) -> Report:
        """What is right and wrong about a reply; its module, guards and records are kept."""
        source = extract(reply)
        if isinstance(source, Finding):
            return Report(version=version, findings=(source,))
        self.journal.keep(version, MODULE, source.encode())
        offences = screen(source)
        if offences:
            return Report(version=version, findings=offences)
        self.tell("loading and validating the module")
        inspected = run(self._request(Task.INSPECT, source, self.settings.limits.inspect_s), hash_seed=1)
        if not inspected.sample_digest:
            return _report(version, inspected.findings, inspected)
        self.tell("burn-in")
        played = run(self._request(Task.PLAY, source, self.settings.limits.play_s), self.progress, hash_seed=3)
        findings = (*inspected.findings, *unsteady(inspected, played), *played.findings)
        if played.guards:
            findings += self._keep(version, played)
        return _report(version, findings, played if played.guards else inspected)

    def _request(self, task: Task, source: str, seconds: float) -> Request:
        settings = self.settings
        return Request(
            task=task, game=settings.game, source=source, limits=settings.limits, seconds=seconds, play=settings.play
        )

    def _keep(self, version: int, played: Verdict) -> tuple[Finding, ...]:
        try:
            burnin = unpack(played, self.settings.game, self.settings.play)
        except (ValueError, OSError) as error:
            return (Finding(stage=Stage.PLAY, kind="records", evidence=f"the records cannot be read: {error}."),)
        save(burnin, self.journal.version_folder(version) / BURNIN)
        self.journal.note(version, BURNIN)
        self.journal.keep(version, GUARDS, played.guards.encode())
        return ()


def unsteady(inspected: Verdict, played: Verdict) -> tuple[Finding, ...]:
    """A fault where the same short play ended differently in two processes."""
    if not played.sample_digest or played.sample_digest == inspected.sample_digest:
        return ()
    evidence = (
        "the same short play had different results in two processes. Do not iterate over sets, and let no hook depend "
        "on anything but the world."
    )
    return (Finding(stage=Stage.PLAY, kind="not_deterministic", evidence=evidence),)


def _report(version: int, findings: tuple[Finding, ...], verdict: Verdict) -> Report:
    library = GuardLibrary.parse(verdict.guards)
    return Report(
        version=version,
        findings=findings,
        contracts=verdict.contracts,
        contracts_digest=verdict.contracts_digest,
        burnin_digest=verdict.burnin_digest,
        records=verdict.records,
        outcomes=verdict.outcomes,
        library_digest=library.digest if verdict.guards else "",
        guards=tuple(
            f"{guard.option}: {' & '.join(f'{name} = {value}' for name, value in guard.when.items())} "
            f"({guard.channel}, {guard.support} failures)"
            for guard in library.guards
        ),
    )
