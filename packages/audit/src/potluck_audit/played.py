"""What must be played or asked anew: coalitions and credit, and every policy's answer to the same prompts."""

from __future__ import annotations

from pathlib import Path

from potluck.play.policy_client import PolicyClient
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.counterfactual.coalitions import VERIFIED, Players, complete
from potluck_audit.counterfactual.values import Coalition, CoalitionValues, recorded_values
from potluck_audit.credit import Budget, credit, is_complete, plan, sampled_credit
from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.cooperation import cooperation
from potluck_audit.metrics.diversity import swap_policies
from potluck_audit.metrics.metric import Check, EpisodeSet
from potluck_audit.progress import OnStage
from potluck_audit.recorded import SOLO, TRAINED
from potluck_audit.results import AuditResults
from potluck_audit.shapley import coalitions
from potluck_audit.verdict.recorded import verdict_notes

PLAYS_AGAIN = "the team plays again as recorded"
ANSWERS_AGAIN = "the policies answer as recorded"
NO_CREDIT = (
    Reason.REPLAY_DIVERGED, Reason.UNKNOWN_ADAPTER, Reason.WRONG_BASE, Reason.UNKNOWN_RUN, Reason.UNSUPPORTED,
)  # fmt: skip
"""Why a team cannot be played again: the audit goes on without credit and says so in red."""

PROMPTS = 500
"""Recorded prompts that every policy is asked about."""


def trained_team(results: AuditResults) -> EpisodeSet | None:
    """The trained team where it is one, with at least one return."""
    team = next((s for s in results.sets if s.name == TRAINED), None)
    if team is None or len(team.agents) < 2 or not any(e.team_return is not None for e in team.episodes):
        return None
    return team


async def cooperate(
    results: AuditResults, players: Players | None, budget: Budget, intervals: Intervals, on_stage: OnStage
) -> None:
    """Solo values, synergy, necessity and credit of the trained team, as far as they are recorded or can be played."""
    team = trained_team(results)
    if team is None:
        return
    solos = {s.name.removeprefix(SOLO): s for s in results.sets if s.name.startswith(SOLO)}
    values = recorded_values(team, solos)
    orders: list[tuple[str, ...]] = []
    if players is not None and players.policy is not None:
        wanted, orders, note = _wanted(values, budget)
        results.notes += note
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
    results.notes += verdict_notes(values, team, intervals)
    if orders:
        found = sampled_credit(values, orders, team.name, team.unit, intervals)
    elif is_complete(values):
        found = credit(values, team.name, team.unit, intervals)
    else:
        return
    results.metrics += found.metrics
    results.notes += found.notes


def _wanted(values: CoalitionValues, budget: Budget) -> tuple[list[Coalition], list[tuple[str, ...]], list[str]]:
    """Coalitions to play, sampled orders of joining where there are too many, and what a reader must know of it."""
    simple = {0, 1, len(values.players) - 1, len(values.players)}
    few = [members for members in coalitions(values.players) if len(members) in simple]
    try:
        wanted, orders = plan(values.players, budget)
    except InvalidRequest as small:
        return few, [], [f"No credit is given: {small.message} ({len(few)} coalitions were played)."]
    return list(dict.fromkeys([*few, *wanted])), orders, []


async def diversify(
    results: AuditResults, policy: PolicyClient, run: Path, intervals: Intervals, on_stage: OnStage
) -> None:
    """Policy diversity of the trained team on common prompts; where there are none, a note says why."""
    team = trained_team(results)
    if team is None:
        return
    on_stage("asking the policies about the same prompts", 0, 0)
    try:
        results.metrics += await swap_policies(run, team, policy, intervals, PROMPTS)
    except PotluckError as error:
        if error.reason not in NO_CREDIT:
            raise
        if error.reason != Reason.UNSUPPORTED:
            results.checks.append(Check(ANSWERS_AGAIN, team.name, False, error.message))
        results.notes.append(f"No policy diversity: {error.message}.")
