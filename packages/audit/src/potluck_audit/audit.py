"""One audit from records to report: measure what is recorded, play what is not, write what was found.

Reading and statistics run in a thread, so that the server's event loop goes on; playing is awaited. The run's own
records are only read: an audit writes into `audit/`, and `report.html`, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.telemetry import names
from potluck.telemetry.context import start_span
from potluck_audit.counterfactual.coalitions import Players
from potluck_audit.credit import Budget
from potluck_audit.errors import CannotWrite, InvalidRequest
from potluck_audit.intervals import Intervals
from potluck_audit.kept import found_before, other_credits, swaps, told_of
from potluck_audit.played import cooperate, diversify
from potluck_audit.progress import OnStage
from potluck_audit.recorded import compare_seeds, measure
from potluck_audit.records import load_run
from potluck_audit.records.run import TRAIN
from potluck_audit.report.page import write_report
from potluck_audit.report.replay_data import ReplayedEpisode
from potluck_audit.report.replays import fetch, picks
from potluck_audit.results import AuditResults, write_results
from potluck_audit.superseded import keep_fuller

COALITIONS = 16
"""Up to so many coalitions an audit plays: all of four agents, those of synergy and necessity of seven."""


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and with what."""

    run: Path
    sets: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    policy: str = ""
    confidence: float = 0.95
    report: bool = True
    seeds: tuple[Path, ...] = ()
    """Runs of other training seeds, whose division of labour is compared."""
    coalitions: int = COALITIONS

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidRequest("confidence", f"{self.confidence} is no confidence", "give one such as 0.95")
        if self.coalitions < 1:
            raise InvalidRequest("coalitions", f"{self.coalitions} coalitions cannot be played", "give 1 or more")


class AuditOutcome(NamedTuple):
    """An ended audit."""

    results: AuditResults
    results_path: Path
    report_path: Path | None
    kept: Path | None = None
    """Results of an earlier audit that these do not cover, where they lie now."""


async def run_audit(request: AuditRequest, on_stage: OnStage, audit_id: str = "") -> AuditOutcome:
    with start_span(names.AUDIT_JOB, {names.RUN: request.run.name, names.AUDIT_ID: audit_id}):
        return await _run(request, on_stage)


async def _run(request: AuditRequest, on_stage: OnStage) -> AuditOutcome:
    on_stage("reading records", 0, 0)
    run = await asyncio.to_thread(load_run, request.run, request.sets)
    intervals = Intervals(request.confidence)
    results = await asyncio.to_thread(measure, run, intervals, on_stage)
    results.decoupling, results.blame = await asyncio.to_thread(found_before, run.path)
    results.metrics += await asyncio.to_thread(swaps, run.path)
    if request.seeds:
        on_stage("comparing training seeds", 0, 0)
        results.metrics += await asyncio.to_thread(compare_seeds, run, request.seeds, intervals)
    replayed: list[ReplayedEpisode] = []
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool(request.envs)) if request.envs else None
        policy = await stack.enter_async_context(PolicyClient(request.policy)) if request.policy else None
        if envs:
            on_stage("replaying episodes", 0, 0)
            chosen = picks((s for s in results.sets if s.name != TRAIN), told_of(results.blame))
            replayed, check = await fetch(chosen, envs)
            results.checks.append(check)
        players = Players(envs, policy, run.path, greedy=run.greedy) if envs else None
        await cooperate(results, players, Budget(request.coalitions), intervals, on_stage)
        results.metrics += await asyncio.to_thread(other_credits, results, run.path)
        if policy:
            await diversify(results, policy, run.path, intervals, on_stage)
    on_stage("writing", 0, 0)
    return await asyncio.to_thread(_write, results, replayed, run.path, request.report)


def _write(results: AuditResults, replayed: Sequence[ReplayedEpisode], run: Path, report: bool) -> AuditOutcome:
    try:
        kept = keep_fuller(results, run)
        written = write_results(results, run)
        return AuditOutcome(results, written, write_report(results, replayed, run) if report else None, kept)
    except OSError as error:
        raise CannotWrite(run, error.strerror or str(error)) from error
