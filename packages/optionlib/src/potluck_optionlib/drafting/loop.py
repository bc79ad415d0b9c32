"""The drafting loop: ask, judge, send the faults back with their evidence, at most N times.

Everything is in the journal before the next step begins. Run again on the same folder, the loop walks through what is
kept and goes on where it was cut: kept replies are not asked for again, kept reports are not made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from potluck_optionlib.drafting import retry
from potluck_optionlib.drafting.conversation import SourceFile, first_request, repair_request, rules
from potluck_optionlib.drafting.endpoints import Client, Message, Reply
from potluck_optionlib.drafting.errors import DraftFolderError, EndpointError, SandboxError
from potluck_optionlib.drafting.journal import Journal, sha256
from potluck_optionlib.drafting.judgement import BURNIN, GUARDS, MODULE, Judge
from potluck_optionlib.drafting.messages import Request, Task
from potluck_optionlib.drafting.report import Report
from potluck_optionlib.drafting.sandbox import Progress, run
from potluck_optionlib.drafting.settings import Settings
from potluck_optionlib.games import draft_notes

REQUEST, REPLY, REPORT = "request.json", "reply.json", "report.json"
_LEAST = """from potluck_optionlib.contracts import waiting


def contracts(world):
    return [waiting()]
"""


@dataclass(frozen=True, slots=True)
class Drafted:
    """How a draft ended."""

    report: Report
    """Of the last version."""
    folder: Path
    """The last version's."""
    replies: int
    input_tokens: int
    output_tokens: int


def draft(
    settings: Settings,
    sources: Sequence[SourceFile],
    client: Client,
    out: Path,
    tell: Callable[[str], None] = lambda line: None,
    progress: Progress | None = None,
) -> Drafted:
    """Drafts a library. Raises EndpointError, DraftFolderError, SandboxError, NotDraftableError, UnknownGameError."""
    notes = draft_notes(settings.game)
    _check_sandbox(settings)
    system, first = rules(), first_request(settings.game, notes, sources)
    journal = Journal(out, _identity(settings, sources, system, notes))
    try:
        journal.record(
            address=client.address,
            limits=settings.limits.model_dump(mode="json"),
            repairs=settings.repairs,
            versions_of=_library_versions(),
        )
        return _Loop(settings, client, journal, tell, Judge(settings, journal, tell, progress)).go(system, first)
    finally:
        journal.close()


@dataclass(slots=True)
class _Loop:
    settings: Settings
    client: Client
    journal: Journal
    tell: Callable[[str], None]
    judge: Judge

    def go(self, system: str, first: str) -> Drafted:
        messages = [Message("user", first)]
        rows: list[dict[str, Any]] = []
        number = 0
        while True:
            reply = self._reply(number, system, messages)
            report = self._report(number, reply)
            rows.append(self._row(number, reply, report))
            done = report.clean or number == self.settings.repairs
            result = ("clean" if report.clean else "faults") if done else None
            usage = {name: sum(max(0, row[name]) for row in rows) for name in ("input_tokens", "output_tokens")}
            self.journal.record(versions=rows, usage=usage, result=result, final=number if done else None)
            if done:
                self.journal.event("finished", result=result, version=number)
                folder = self.journal.version_folder(number)
                return Drafted(report, folder, len(rows), usage["input_tokens"], usage["output_tokens"])
            self.tell(f"version {number}: {len(report.findings)} faults, sent back with the evidence")
            messages += [Message("assistant", reply.text or "(empty)"), Message("user", repair_request(report))]
            number += 1

    def _reply(self, number: int, system: str, messages: Sequence[Message]) -> Reply:
        """The kept reply to exactly these messages, or a new one."""
        request = _json({"system": system, "messages": [asdict(message) for message in messages]})
        kept = self.journal.kept(number, REPLY)
        if kept is not None:
            if self.journal.kept(number, REQUEST) != request:
                raise DraftFolderError(
                    f"{self.journal.version_folder(number)} holds the reply to another conversation (made by another "
                    "version of this program?). Use another --out folder."
                )
            self.tell(f"version {number}: the reply is in the folder already")
            return Reply(**json.loads(kept))
        self.journal.keep(number, REQUEST, request)
        self.tell(f"version {number}: asking {self.settings.endpoint.model}")
        try:
            reply = retry.ask(self.client, self.settings.endpoint, system, messages, self._paused)
        except EndpointError as error:
            self.journal.event("endpoint_error", version=number, error=type(error).__name__, text=str(error))
            self.journal.record(result=f"error: {error}")
            raise
        self.journal.keep(number, REPLY, _json(asdict(reply)))
        return reply

    def _report(self, number: int, reply: Reply) -> Report:
        kept = self.journal.kept(number, REPORT)
        if kept is not None:
            try:
                return Report.model_validate_json(kept)
            except ValidationError as error:
                raise DraftFolderError(f"{REPORT} of version {number} cannot be read. Use another --out.") from error
        report = self.judge.report(number, reply)
        self.journal.keep(number, REPORT, report.model_dump_json(indent=1).encode() + b"\n")
        return report

    def _row(self, number: int, reply: Reply, report: Report) -> dict[str, Any]:
        names = (REQUEST, REPLY, MODULE, REPORT, GUARDS, BURNIN)
        kept = {name: data for name in names if (data := self.journal.kept(number, name)) is not None}
        return {
            "version": number,
            "model": reply.model,
            "request_id": reply.request_id,
            "finish": reply.finish,
            "input_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "sha256": {name: sha256(data) for name, data in kept.items()},
            "contracts_digest": report.contracts_digest,
            "burnin_digest": report.burnin_digest,
            "library_digest": report.library_digest,
            "findings": [finding.line() for finding in report.findings],
        }

    def _paused(self, pause: retry.Pause) -> None:
        why = "as the endpoint asks" if pause.asked else "by doubling"
        self.journal.event("pause", **asdict(pause))
        self.tell(
            f"attempt {pause.attempt} of {pause.attempts}: status {pause.status}; trying again in {pause.wait_s:g} s "
            f"({why})"
        )


def _identity(settings: Settings, sources: Sequence[SourceFile], system: str, notes: str) -> dict[str, Any]:
    """What makes one draft another: everything that the conversation and its judgement depend on."""
    endpoint = settings.endpoint
    return {
        "game": settings.game,
        "provider": str(endpoint.provider),
        "model": endpoint.model,
        "max_tokens": endpoint.max_tokens,
        "temperature": endpoint.temperature,
        "play": settings.play.model_dump(mode="json"),
        "sources": [
            {"name": source.name, "sha256": source.sha256, "bytes": len(source.text.encode())} for source in sources
        ],
        "rules_sha256": sha256(system.encode()),
        "notes_sha256": sha256(notes.encode()),
    }


def _check_sandbox(settings: Settings) -> None:
    """The smallest library must run before anybody is asked for a larger one."""
    limits = settings.limits
    request = Request(
        task=Task.INSPECT,
        game=settings.game,
        source=_LEAST,
        limits=limits,
        seconds=limits.inspect_s,
        play=settings.play,
    )
    verdict = run(request)
    if not verdict.sample_digest:
        why = " ".join(finding.line() for finding in verdict.findings)
        raise SandboxError(
            f"A library of `wait` alone does not run under these limits, so nothing was sent: {why} Raise the limits."
        )


def _library_versions() -> dict[str, str]:
    found = {}
    for name in ("potluck-optionlib", "openai", "anthropic"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"
