"""Fault injection: failures whose first decisive error is known.

A successful episode is continued from one of its boundaries with one agent's choice there replaced, everything else
and the noise as recorded. It counts as a fault where

1. the recorded continuation fails: its return is below the threshold,
2. success was likely just before: P(success | prefix) >= `before` under fresh noise, and
3. it is unlikely just after: P(success | prefix, replaced choice) <= `after` under the same fresh noise.

Without 2 and 3 a failure may be bad luck, or come from something that was lost before: then the replaced choice is not
what decided. The noise of these checks is never that of a search (it depends on the recording's digest).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import DecisionRecord, EpisodeResult, Given
from potluck_audit.blame.attribution import choice_of
from potluck_audit.blame.branches import Branch, Branches
from potluck_audit.blame.case import Case
from potluck_audit.blame.results import Choice
from potluck_audit.blame.trace import Moment, Trace


@dataclass(frozen=True)
class Fault:
    """A failed episode and what made it fail."""

    case: Case
    agent: str
    decision: int
    boundary: int
    step: int
    index: int
    """Number of the decision in the whole episode, by time and seat."""
    was: Choice
    injected: Choice
    before: float
    after: float


@dataclass
class Tally:
    """What became of the choices that were tried."""

    tried: int = 0
    harmless: int = 0
    """The recorded continuation succeeded all the same."""
    not_decisive: int = 0
    """It failed, but success was not likely before or still likely after."""
    injected: int = 0


@dataclass(frozen=True)
class FaultSettings:
    """What counts as a fault."""

    threshold: float
    before: float = 0.8
    after: float = 0.2
    plays: int = 16
    per_episode: int = 4
    tries: int = 40
    """Choices tried in one episode at most."""
    seed: int = 0


@dataclass(frozen=True)
class _Try:
    """A choice that may be harmful."""

    moment: Moment
    decision: DecisionRecord
    place: int

    @property
    def choices(self) -> dict[str, Given]:
        item = self.decision.prompt.items[self.place]
        return {**self.moment.taken, self.decision.agent: (item.option, item.target)}


async def inject(
    case: Case, trace: Trace, envs: EnvPool, policy: PolicyClient | None, settings: FaultSettings, tally: Tally
) -> list[Fault]:
    """Faults of one successful episode, at boundaries drawn without replacement, in the order of the draw."""
    branches = Branches(case, envs, policy)
    tries = _tries(case, trace, settings)
    results = await branches.results([Branch(one.moment.boundary, None, one.choices) for one in tries])
    failed = [(t, r) for t, r in zip(tries, results, strict=True) if r.finished.team_return < settings.threshold]
    tally.tried += len(tries)
    tally.harmless += len(tries) - len(failed)
    found: list[Fault] = []
    for start in range(0, len(failed), settings.per_episode):
        part = failed[start : start + settings.per_episode]
        for one, result, before, after in await _checked(branches, part, settings):
            if before >= settings.before and after <= settings.after:
                found.append(_fault(case, trace, one, result, before, after))
            else:
                tally.not_decisive += 1
        if len(found) >= settings.per_episode:
            break
    tally.injected += len(found[: settings.per_episode])
    return found[: settings.per_episode]


def _tries(case: Case, trace: Trace, settings: FaultSettings) -> list[_Try]:
    rng = random.Random(f"{settings.seed}/{case.recording.digest}")
    moments = list(trace.moments)
    rng.shuffle(moments)
    found = []
    for moment in moments[: settings.tries]:
        decision = rng.choice(moment.decisions)
        places = [p for p in range(len(decision.prompt.items)) if p != decision.index]
        if places:
            found.append(_Try(moment, decision, rng.choice(places)))
    return found


async def _checked(
    branches: Branches, tries: Sequence[tuple[_Try, EpisodeResult]], settings: FaultSettings
) -> list[tuple[_Try, EpisodeResult, float, float]]:
    """With the probabilities of success before and after."""
    noises = range(settings.plays)
    wanted = [
        Branch(one.moment.boundary, noise, choices)
        for one, _ in tries
        for choices in ({}, one.choices)
        for noise in noises
    ]
    returns = await branches.returns(wanted)
    won = [r >= settings.threshold for r in returns]
    shares = [sum(won[at : at + settings.plays]) / settings.plays for at in range(0, len(won), settings.plays)]
    return [(one, result, shares[2 * n], shares[2 * n + 1]) for n, (one, result) in enumerate(tries)]


def _fault(case: Case, trace: Trace, one: _Try, result: EpisodeResult, before: float, after: float) -> Fault:
    moment, decision = one.moment, one.decision
    return Fault(
        case=replace(
            case,
            episode_id=f"{case.episode_id}-fault-{moment.boundary}-{decision.agent}-{one.place}",
            recording=result.finished.recording,
            team_return=result.finished.team_return,
        ),
        agent=decision.agent,
        decision=decision.decision,
        boundary=moment.boundary,
        step=moment.step,
        index=trace.order.index((moment.boundary, decision.agent)),
        was=choice_of(decision),
        injected=choice_of(decision, one.place),
        before=before,
        after=after,
    )
