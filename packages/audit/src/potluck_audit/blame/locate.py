"""The first decisive error of a failed episode, from walk to answer.

A failure is a team return below the stated threshold. The error is the decision at which P(success | prefix), under the
stated continuation policy, falls below tau for good; an earlier fall that was made good again is a repaired error, and
the decision that made it good a repair. Who decided is found at the boundary itself (see `attribution`). Where no
single decision can be named the answer is `undecided` with its reason, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck_audit.blame.attribution import Finding, choice_of, findings
from potluck_audit.blame.branches import Branches
from potluck_audit.blame.case import Case
from potluck_audit.blame.curve import Curve, Point
from potluck_audit.blame.errors import NotAFailure, OutOfBudget
from potluck_audit.blame.results import CurvePoint, Error, Located, Repair, Share, Spent, Undecided
from potluck_audit.blame.search import Fall, FromTheStart, Search, search
from potluck_audit.blame.settings import LocateSettings
from potluck_audit.blame.trace import Trace, walk
from potluck_audit.progress import OnStage


@dataclass
class _Answer:
    """What is known so far; it becomes a Located however the search ends."""

    scan: str = ""
    monotone: bool | None = None
    error: Error | None = None
    undecided: Undecided | None = None
    why: str = ""
    repaired: tuple[Error, ...] = ()
    repairs: tuple[Repair, ...] = ()


async def locate(
    case: Case,
    envs: EnvPool,
    policy: PolicyClient | None,
    settings: LocateSettings,
    on_stage: OnStage = lambda *stage: None,
) -> Located:
    """Raises NotAFailure, Diverged, CannotFork; adapters must be held by the policy server (see `leased`)."""
    if case.team_return >= settings.threshold:
        raise NotAFailure(case.episode_id, case.team_return, settings.threshold)
    on_stage(f"walking {case.episode_id}", 0, 0)
    trace = await walk(case, envs)
    branches = Branches(case, envs, policy, settings.continuation, settings.budget)
    curve = Curve(branches, len(trace.moments), settings.threshold)
    answer = _Answer()
    try:
        await _answer(answer, trace, branches, curve, settings, on_stage)
    except OutOfBudget:
        answer.undecided = Undecided.BUDGET
        answer.why = f"{settings.budget} branches did not suffice"
    except FromTheStart as hopeless:
        point = hopeless.point
        answer.undecided = Undecided.FROM_THE_START
        answer.why = (
            f"only {point.successes} of {point.plays} plays from the start reach {settings.threshold:g} "
            f"with the continuation policy {settings.continuation}; state a lower threshold or a better policy"
        )
    return _located(case, trace, curve, branches, settings, answer)


async def _answer(
    answer: _Answer, trace: Trace, branches: Branches, curve: Curve, settings: LocateSettings, on_stage: OnStage
) -> None:
    if not trace.moments:
        answer.undecided, answer.why = Undecided.NO_DECISIONS, "no agent was asked anything"
        return
    on_stage(f"searching {branches.case.episode_id}", 0, 0)
    found = await search(curve, settings)
    answer.scan, answer.monotone = found.scan, found.monotone
    on_stage(f"attributing {branches.case.episode_id}", 0, 0)
    fall = found.falls[-1]
    if fall.certainty < settings.certainty:
        answer.undecided = Undecided.AMBIGUOUS
        answer.why = (
            f"the largest fall, at boundary {fall.boundary} from {fall.before.p:.2f} to {fall.after.p:.2f}, is the "
            f"decisive one with probability {fall.certainty:.2f} only"
        )
    else:
        await _blame(answer, fall, trace, branches, settings)
    await _earlier(answer, found, trace, branches, settings)


async def _blame(answer: _Answer, fall: Fall, trace: Trace, branches: Branches, settings: LocateSettings) -> None:
    moment = trace.moments[fall.boundary]
    found = await findings(branches, moment, settings.threshold, settings.continuations)
    guilty = responsible(found, fall.after.p, settings.tau)
    if guilty is None:
        answer.undecided = Undecided.NOBODY
        answer.why = (
            f"at boundary {fall.boundary} success falls from {fall.before.p:.2f} to {fall.after.p:.2f}, and no single "
            "agent's other choice there would have kept it likely"
        )
        return
    answer.error = _error(guilty, fall, settings)


def responsible(found: Sequence[Finding], after: float, tau: float) -> Finding | None:
    """Whose asking again makes success likely, the one with most; else whose best other item does."""
    for gains in ([f.redecided for f in found], [f.gain for f in found]):
        able = [
            (own.success, own.returns, -place)
            for place, own in enumerate(gains)
            if own is not None and own.success > 0 and after + own.success >= tau
        ]
        if able:
            return found[-max(able)[2]]
    return None


async def _earlier(answer: _Answer, found: Search, trace: Trace, branches: Branches, settings: LocateSettings) -> None:
    """Errors that were repaired, and the repairs."""
    repaired: list[Error] = []
    repairs: list[Repair] = []
    for fall, rise in zip(found.falls, found.rises, strict=False):
        moment = trace.moments[fall.boundary]
        guilty = responsible(
            await findings(branches, moment, settings.threshold, settings.continuations), fall.after.p, settings.tau
        )
        if guilty is not None:
            repaired.append(replace(_error(guilty, fall, settings), repaired_at=rise.boundary))
        moment = trace.moments[rise.boundary]
        who = await findings(branches, moment, settings.threshold, settings.continuations)
        repairs.append(_repair(min(who, key=lambda f: f.redecided.success), rise, settings))
    answer.repaired, answer.repairs = tuple(repaired), tuple(repairs)


def _error(finding: Finding, fall: Fall, settings: LocateSettings) -> Error:
    decision = finding.decision
    better = finding.gain is not None and (finding.gain.success > 0 or finding.gain.returns > 0)
    return Error(
        agent=decision.agent,
        decision=decision.decision,
        boundary=decision.boundary,
        step=decision.step,
        taken=choice_of(decision),
        better=finding.best if better else None,
        gain=finding.gain if better else None,
        redecided=finding.redecided,
        before=share(fall.before, settings.confidence),
        after=share(fall.after, settings.confidence),
        certainty=fall.certainty,
    )


def _repair(finding: Finding, rise: Fall, settings: LocateSettings) -> Repair:
    decision, again = finding.decision, finding.redecided
    return Repair(
        agent=decision.agent,
        decision=decision.decision,
        boundary=decision.boundary,
        step=decision.step,
        taken=choice_of(decision),
        worse=finding.worst,
        gain=finding.lead,
        redecided=replace(again, success=-again.success, returns=-again.returns),
        before=share(rise.before, settings.confidence),
        after=share(rise.after, settings.confidence),
        certainty=rise.certainty,
    )


def share(point: Point, confidence: float) -> Share:
    found = point.interval(confidence)
    return Share(point.p, found.low, found.high, point.plays)


def _located(
    case: Case, trace: Trace, curve: Curve, branches: Branches, settings: LocateSettings, answer: _Answer
) -> Located:
    steps = [moment.step for moment in trace.moments]
    return Located(
        set=case.set,
        episode_id=case.episode_id,
        game=case.game,
        seed=case.recording.seed,
        unit=case.unit,
        team_return=case.team_return,
        threshold=settings.threshold,
        tau=settings.tau,
        continuation=settings.continuation,
        scan=answer.scan,
        monotone=answer.monotone,
        error=answer.error,
        undecided=answer.undecided,
        why=answer.why,
        repaired=answer.repaired,
        repairs=answer.repairs,
        curve=tuple(
            CurvePoint(b, steps[b] if b < len(steps) else trace.steps, share(point, settings.confidence))
            for b, point in sorted(curve.points.items())
        ),
        spent=Spent(branches.cost.branches, branches.cost.decisions, branches.cost.steps),
        confidence=settings.confidence,
    )
