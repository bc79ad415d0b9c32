"""One audit from records to report: measure what is recorded, play what is not, write what was found.

Reading and statistics run in a thread, so that the server's event loop goes on; playing is awaited. The run's own
records are only read: an audit writes `audit/results.json` and `report.html` and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.rpc.errors import PotluckError, Reason
from potluck.telemetry import names
from potluck.telemetry.context import start_span
from potluck_audit.counterfactual.coalitions import VERIFIED, Players, complete
from potluck_audit.counterfactual.values import Coalition, CoalitionValues, recorded_values
from potluck_audit.credit import credit, is_complete
from potluck_audit.errors import CannotWrite, InvalidRequest
from potluck_audit.facts import run_facts
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.behaviour import behaviour, checks
from potluck_audit.metrics.cooperation import cooperation
from potluck_audit.metrics.curves import learning_curve
from potluck_audit.metrics.metric import Check, EpisodeSet
from potluck_audit.metrics.returns import gain
from potluck_audit.metrics.visits import visits
from potluck_audit.records import RunRecords, load_run
from potluck_audit.records.run import TRAIN
from potluck_audit.report.page import write_report
from potluck_audit.report.replay_data import ReplayedEpisode
from potluck_audit.report.replays import fetch, picks
from potluck_audit.results import AuditResults, write_results
from potluck_audit.shapley import coalitions

TRAINED = "eval/trained"
SOLO = "eval/solo/"
ALL_COALITIONS = 8
"""Up to so many coalitions an audit plays all; beyond, only those of synergy and necessity."""

PLAYS_AGAIN = "the team plays again as recorded"
NO_CREDIT = (Reason.REPLAY_DIVERGED, Reason.UNKNOWN_ADAPTER, Reason.WRONG_BASE, Reason.UNKNOWN_RUN)
"""Why a team cannot be played again: the audit goes on without credit and says so in red."""

OnStage = Callable[[str, int, int], None]


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and with what."""

    run: Path
    sets: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    policy: str = ""
    confidence: float = 0.95
    report: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidRequest("confidence", f"{self.confidence} is no confidence", "give one such as 0.95")


class AuditOutcome(NamedTuple):
    """An ended audit."""

    results: AuditResults
    results_path: Path
    report_path: Path | None


async def run_audit(request: AuditRequest, on_stage: OnStage, audit_id: str = "") -> AuditOutcome:
    with start_span(names.AUDIT_JOB, {names.RUN: request.run.name, names.AUDIT_ID: audit_id}):
        return await _run(request, on_stage)


async def _run(request: AuditRequest, on_stage: OnStage) -> AuditOutcome:
    on_stage("reading records", 0, 0)
    run = await asyncio.to_thread(load_run, request.run, request.sets)
    intervals = Intervals(request.confidence)
    results = await asyncio.to_thread(measure, run, intervals, on_stage)
    replayed: list[ReplayedEpisode] = []
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool(request.envs)) if request.envs else None
        policy = await stack.enter_async_context(PolicyClient(request.policy)) if request.policy else None
        if envs:
            on_stage("replaying episodes", 0, 0)
            replayed, check = await fetch(picks(s for s in results.sets if s.name != TRAIN), envs)
            results.checks.append(check)
        players = Players(envs, policy, run.path, greedy=run.greedy) if envs else None
        await _cooperate(results, players, intervals, on_stage)
    on_stage("writing", 0, 0)
    return await asyncio.to_thread(_write, results, replayed, run.path, request.report)


def episode_set(run: RunRecords, name: str) -> EpisodeSet:
    episodes = run.of(name)
    return EpisodeSet(name, episodes, episodes[0].reward_unit)


def measure(run: RunRecords, intervals: Intervals, on_stage: OnStage) -> AuditResults:
    sets = [episode_set(run, name) for name in run.sets if name != TRAIN]
    results = AuditResults(run.name, run_facts(run), intervals.confidence, sets)
    for number, group in enumerate(sets):
        on_stage(f"measuring {group.name}", number, len(sets))
        results.metrics += behaviour(group, intervals)
        results.checks += checks(group)
        results.visits[group.name] = visits(group)
        if len(group.episodes) == 1:
            results.notes.append(f"{group.name} has one episode: its numbers have no intervals.")
    if trained := next((s for s in sets if s.name == TRAINED), None):
        for other in sets:
            if other is not trained and not other.name.startswith(SOLO):
                results.metrics += gain(trained, other, intervals)
    results.curve = learning_curve(run.of(TRAIN), intervals)
    if not sets:
        results.notes.append(
            "The run holds no evaluation yet (`potluck eval RUN` plays one): only its training returns are shown."
        )
    return results


async def _cooperate(results: AuditResults, players: Players | None, intervals: Intervals, on_stage: OnStage) -> None:
    """Solo values, synergy, necessity and credit of the trained team, as far as they are recorded or can be played."""
    team = next((s for s in results.sets if s.name == TRAINED), None)
    if team is None or len(team.agents) < 2 or not any(e.team_return is not None for e in team.episodes):
        return
    solos = {s.name.removeprefix(SOLO): s for s in results.sets if s.name.startswith(SOLO)}
    values = recorded_values(team, solos)
    if players is not None and players.policy is not None:
        wanted = _wanted(values)
        played = any(members not in values.returns for members in wanted)
        try:
            values = await complete(values, team, wanted, players, on_stage)
        except PotluckError as error:
            if error.reason not in NO_CREDIT:
                raise
            results.checks.append(Check(PLAYS_AGAIN, team.name, False, error.message))
            results.notes.append(f"No credit is given: {error.message}.")
            return
        if played:
            verified = min(VERIFIED, len(team.episodes))
            results.checks.append(Check(PLAYS_AGAIN, team.name, True, f"{verified} episodes, same trajectories"))
    if len(values.returns) > 1:
        results.metrics += cooperation(values, team.name, team.unit, intervals)
    if is_complete(values):
        results.metrics += credit(values, team.name, team.unit, intervals).metrics


def _wanted(values: CoalitionValues) -> list[Coalition]:
    everything = list(coalitions(values.players))
    if len(everything) <= ALL_COALITIONS:
        return everything
    sizes = {0, 1, len(values.players) - 1}
    return [members for members in everything if len(members) in sizes]


def _write(results: AuditResults, replayed: Sequence[ReplayedEpisode], run: Path, report: bool) -> AuditOutcome:
    try:
        written = write_results(results, run)
        return AuditOutcome(results, written, write_report(results, replayed, run) if report else None)
    except OSError as error:
        raise CannotWrite(run, error.strerror or str(error)) from error
