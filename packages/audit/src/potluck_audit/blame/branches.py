"""Branches of a recorded episode: played on from one of its boundaries, with given choices there.

A branch's noise is a number: the same number reseeds environment and policies alike at whatever boundary the branch
begins, so that branches with different choices, or from different boundaries, share their randomness (common random
numbers). Noise None is the recorded one: a branch without given choices then comes out as recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from potluck.play.driver import play
from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import EpisodeResult, EpisodeSpec, ForkSpec, Given
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.blame.case import Case
from potluck_audit.blame.errors import CannotFork, OutOfBudget
from potluck_audit.blame.settings import OWN
from potluck_audit.counterfactual.adapters import held
from potluck_audit.counterfactual.seats import Seats
from potluck_audit.errors import InvalidRequest

BATCH = 256
"""Branches that are played together."""


@dataclass(frozen=True)
class Branch:
    """One continuation. `choices` are made at `boundary`; agents not named there are asked."""

    boundary: int
    noise: int | None = None
    choices: Mapping[str, Given] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int | None, tuple[tuple[str, Given], ...]]:
        return self.boundary, self.noise, tuple(sorted(self.choices.items()))


@dataclass
class Cost:
    """What was played."""

    branches: int = 0
    decisions: int = 0
    """Choices asked of policies."""
    steps: int = 0
    """Environment steps after the forks."""


class Branches:
    """Plays branches of one case and remembers their returns."""

    def __init__(
        self, case: Case, envs: EnvPool, policy: PolicyClient | None, continuation: str = OWN, budget: int = 0
    ) -> None:
        self.case = case
        self.continuation = continuation
        self.cost = Cost()
        self._seats = case.lineup(continuation)
        self._envs, self._policy, self._budget = envs, policy, budget
        self._known: dict[object, float] = {}
        self._played = 0

    async def returns(self, branches: Sequence[Branch]) -> list[float]:
        """Team returns of whole episodes, prefix included. Raises OutOfBudget, CannotFork, or what servers refuse."""
        missing = list({b.key: b for b in branches if b.key not in self._known}.values())
        if self._budget and self.cost.branches + len(missing) > self._budget:
            raise OutOfBudget
        for start in range(0, len(missing), BATCH):
            part = missing[start : start + BATCH]
            for branch, result in zip(part, await self._play(part), strict=True):
                self._known[branch.key] = result.finished.team_return
                self.cost.branches += 1
                self.cost.decisions += len(result.decisions)
        return [self._known[b.key] for b in branches]

    async def results(self, branches: Sequence[Branch]) -> list[EpisodeResult]:
        """Branches with their recordings and decisions, at most `BATCH`; not remembered."""
        results = await self._play(branches)
        self.cost.branches += len(results)
        self.cost.decisions += sum(len(result.decisions) for result in results)
        return results

    async def _play(self, branches: Sequence[Branch]) -> list[EpisodeResult]:
        specs = [self._spec(branch) for branch in branches]
        policy = self._policy if self._seats.policies else None
        try:
            results = await play(specs, self._envs, policy, self.case.options())
        except PotluckError as error:
            if error.reason == Reason.UNSUPPORTED:
                raise CannotFork(self.case.game, error.message) from error
            raise
        starts = [min((d.step for d in r.decisions), default=r.finished.steps) for r in results]
        self.cost.steps += sum(r.finished.steps - start for r, start in zip(results, starts, strict=True))
        return results

    def _spec(self, branch: Branch) -> EpisodeSpec:
        self._played += 1
        case = self.case
        return EpisodeSpec(
            episode_id=f"branch-{self._played}",
            game=case.game,
            seed=case.recording.seed,
            policies=self._seats.policies,
            baselines=self._seats.baselines,
            interface=case.recording.interface,
            sample_seed=case.sample_seed if branch.noise is None else noise_seed(case, "sample", branch.noise),
            fork=ForkSpec(
                case.recording,
                branch.boundary,
                None if branch.noise is None else noise_seed(case, "env", branch.noise),
            ),
            given={branch.boundary: branch.choices} if branch.choices else {},
        )


def noise_seed(case: Case, purpose: str, number: int) -> int:
    """A 63-bit seed: the same for all branches of a case that share a noise number."""
    text = f"{case.recording.digest}/{purpose}/{number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@asynccontextmanager
async def leased(policy: PolicyClient | None, run: Path, *plans: Seats) -> AsyncIterator[None]:
    """Holds the adapters of all plans on the policy server; those that it lacks are published from the run folder."""
    digests = {digest: agent for plan in plans for agent, p in plan.policies.items() if (digest := p.adapter)}
    asked = [plan for plan in plans if plan.policies]
    if policy is None and asked:
        raise InvalidRequest("services.policy", "branches need the agents' policies", "name a policy server")
    async with AsyncExitStack() as stack:
        if policy is not None and digests:
            await stack.enter_async_context(held(policy, digests, run))
        yield
