"""A recorded episode with all its menus, walked through the env server again.

The walk gives every recorded answer instead of asking a policy, so that it needs no policy server and works for any
recording, and it must come to the recorded digest: what does not execute again as recorded is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from potluck.play.driver import play
from potluck.play.pool import EnvPool
from potluck.play.specs import DecisionRecord, EpisodeSpec, ForkSpec
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.blame.case import Case
from potluck_audit.blame.errors import CannotFork
from potluck_audit.errors import Diverged


@dataclass(frozen=True)
class Moment:
    """A decision boundary: what each deciding agent was offered and took."""

    boundary: int
    step: int
    decisions: tuple[DecisionRecord, ...]
    """In seat order."""

    def of(self, agent: str) -> DecisionRecord:
        return next(d for d in self.decisions if d.agent == agent)

    @property
    def taken(self) -> Mapping[str, tuple[str, str]]:
        """Agent -> (option, target) of its recorded choice."""
        return {d.agent: (d.item.option, d.item.target) for d in self.decisions}


@dataclass(frozen=True)
class Trace:
    """All boundaries of an episode, and its rewards."""

    moments: tuple[Moment, ...]
    rewards: tuple[tuple[int, float], ...]
    """(step, team reward), zero ones left out."""
    steps: int
    team_return: float

    def at(self, boundary: int) -> Moment:
        return next(moment for moment in self.moments if moment.boundary == boundary)

    def decisions(self, agent: str) -> tuple[DecisionRecord, ...]:
        return tuple(d for moment in self.moments for d in moment.decisions if d.agent == agent)

    @property
    def order(self) -> tuple[tuple[int, str], ...]:
        """(boundary, agent) of all decisions, by time and seat: decision n of the whole episode is entry n."""
        return tuple((m.boundary, d.agent) for m in self.moments for d in m.decisions)


async def walk(case: Case, envs: EnvPool) -> Trace:
    """Raises Diverged where the episode does not execute again to its digest, CannotFork where nothing can."""
    plan = case.lineup("own")
    recording = case.recording
    spec = EpisodeSpec(
        episode_id="walk",
        game=case.game,
        seed=recording.seed,
        policies=plan.policies,
        baselines=plan.baselines,
        interface=recording.interface,
        sample_seed=case.sample_seed,
        fork=ForkSpec(recording, 0),
        given={c.boundary: {one.agent: one.letter for one in c.choices} for c in recording.choices},
    )
    try:
        [result] = await play([spec], envs, None, case.options())
    except PotluckError as error:
        if error.reason == Reason.UNSUPPORTED:
            raise CannotFork(case.game, error.message) from error
        if error.reason in (Reason.LETTER_NOT_OFFERED, Reason.INVALID_ARGUMENT):
            raise _diverged(case, error.message) from error
        raise
    if result.digest != recording.digest or result.finished.team_return != case.team_return:
        found = f"{result.digest[:12]} with return {result.finished.team_return:g}"
        raise _diverged(case, f"it comes to {found}, recorded {recording.digest[:12]} with {case.team_return:g}")
    by_boundary: dict[int, list[DecisionRecord]] = {}
    for decision in result.decisions:
        by_boundary.setdefault(decision.boundary, []).append(decision)
    moments = tuple(Moment(at, own[0].step, tuple(own)) for at, own in sorted(by_boundary.items()))
    rewards = tuple((s.step, s.reward) for s in result.steps if s.reward)
    return Trace(moments, rewards, result.finished.steps, result.finished.team_return)


def _diverged(case: Case, why: str) -> Diverged:
    return Diverged(
        f"episode {case.episode_id} does not execute again as recorded ({why}), so that nobody can be blamed for it",
        "use the env server, engine and option library that the run was recorded with",
    )
