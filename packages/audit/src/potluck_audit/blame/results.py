"""What blame found, as data: dataclasses that become JSON (`to_json`) and rows of Parquet tables (`files`).

Numbers that are undefined are None, never NaN. `decision` counts an agent's own decisions, `boundary` the episode's
decision boundaries and `step` its environment steps, all from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class Undecided(StrEnum):
    """Why no decision is named."""

    FROM_THE_START = "from_the_start"
    """The continuation policy does not reach the threshold even from the start."""
    BUDGET = "budget"
    """More branches were needed than allowed."""
    AMBIGUOUS = "ambiguous"
    """The success probability falls over several decisions, none of which is surely the one."""
    NOBODY = "nobody"
    """No single agent's other choice at the boundary would have kept success likely."""
    NO_DECISIONS = "no_decisions"
    """No agent was asked anything in the episode."""


@dataclass(frozen=True)
class Share:
    """An estimated probability with its interval."""

    p: float
    low: float | None
    high: float | None
    plays: int


@dataclass(frozen=True)
class Choice:
    """A menu item."""

    letter: str
    option: str
    target: str
    text: str = ""


@dataclass(frozen=True)
class Gain:
    """Paired difference between two choices under the same noise; `*_se` is the standard error of its mean."""

    success: float
    success_se: float | None
    returns: float
    returns_se: float | None
    plays: int


@dataclass(frozen=True)
class Error:
    """A decision after which success is no longer likely."""

    agent: str
    decision: int
    boundary: int
    step: int
    taken: Choice
    better: Choice | None
    """The choice with the highest estimated success, None where none is better."""
    gain: Gain | None
    """Of `better` over `taken`, estimated on noise that it was not chosen by."""
    redecided: Gain | None
    """Of asking the continuation policy again over `taken`."""
    before: Share
    after: Share
    certainty: float
    """Posterior probability that success falls here and nowhere next to it."""
    repaired_at: int | None = None
    """Boundary of the repair, None where none came."""


@dataclass(frozen=True)
class Repair:
    """A decision after which success is likely again."""

    agent: str
    decision: int
    boundary: int
    step: int
    taken: Choice
    worse: Choice | None
    """The choice with the lowest estimated success."""
    gain: Gain | None
    """Of `taken` over `worse`."""
    redecided: Gain | None
    """Of `taken` over asking the continuation policy again: what this very choice brought."""
    before: Share
    after: Share
    certainty: float


@dataclass(frozen=True)
class CurvePoint:
    """P(success | the first `boundary` boundaries as recorded)."""

    boundary: int
    step: int
    share: Share


@dataclass(frozen=True)
class Spent:
    """What the answer cost."""

    branches: int
    decisions: int
    steps: int


@dataclass(frozen=True)
class Located:
    """The first decisive error of one episode. Exactly one of `error` and `undecided` is set."""

    set: str
    episode_id: str
    game: str
    seed: int
    unit: str
    team_return: float
    threshold: float
    tau: float
    continuation: str
    scan: str
    """`binary` or `linear`; empty where the search did not come to either."""
    monotone: bool | None
    error: Error | None
    undecided: Undecided | None
    why: str
    """In words, where it is undecided."""
    repaired: tuple[Error, ...]
    """Earlier errors that were repaired."""
    repairs: tuple[Repair, ...]
    curve: tuple[CurvePoint, ...]
    spent: Spent
    confidence: float = 0.95
    """Of the intervals."""

    @property
    def decided(self) -> bool:
        return self.error is not None


@dataclass(frozen=True)
class DecisionShare:
    """One decision's part of its agent's credit by one judge. `label` None: the judge gave no answer."""

    set: str
    episode_id: str
    agent: str
    decision: int
    boundary: int
    step: int
    option: str
    target: str
    judge: str
    label: float | None
    label_se: float | None
    share: float | None
    credit: float
    """The agent's credit that all its shares add up to."""


@dataclass(frozen=True)
class Agreement:
    """How far two judges agree about the same decisions; None where it is undefined (such as no variation)."""

    first: str
    second: str
    measure: str
    """`kendall_tau` of the labels or `cohen_kappa` of their signs."""
    value: float | None
    low: float | None
    high: float | None
    decisions: int
    episodes: int


@dataclass
class BlameResults:
    """All that one `potluck-audit blame` found."""

    run: str
    baseline: str
    located: list[Located] = field(default_factory=list)
    shares: list[DecisionShare] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    judges: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Judge -> its settings and cost."""
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION, **_plain(asdict(self))}


def rows(items: Sequence[Any]) -> list[dict[str, Any]]:
    """Flat dataclasses as rows."""
    return [_plain(asdict(item)) for item in items]


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
