"""What a judge of decisions is given and gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import DecisionRecord
from potluck_audit.blame.case import Case
from potluck_audit.blame.trace import Trace
from potluck_audit.foreign.models import Model


class Label(NamedTuple):
    """How much a decision helped (> 0) or hurt (< 0). None where the judge has no answer."""

    value: float | None
    se: float | None = None
    """Standard error, where the judge estimates."""


@dataclass(frozen=True)
class Subject:
    """One agent in one episode."""

    case: Case
    trace: Trace
    agent: str

    @property
    def decisions(self) -> tuple[DecisionRecord, ...]:
        return self.trace.decisions(self.agent)


@dataclass(frozen=True)
class Judged:
    """One label a decision of the subject's agent, in order, and what it cost."""

    labels: tuple[Label, ...]
    cost: Mapping[str, int | None] = field(default_factory=dict)
    note: str = ""
    """Why labels are missing, if they are."""


@dataclass(frozen=True)
class Bench:
    """What judges may use; a judge that lacks what it needs refuses when it is made."""

    envs: EnvPool
    policy: PolicyClient | None = None
    model: Model | None = None
    baseline: str = "noop"
    continuations: int = 4
    budget: int = 0
    """Branches a judgement may play; 0 = any number."""


class DecisionJudge(Protocol):
    """Labels the decisions of one agent in one episode."""

    name: str

    async def judge(self, subject: Subject) -> Judged:
        """Raises a PotluckError where no subject could be judged; what concerns one decision alone is a None label."""
        ...
