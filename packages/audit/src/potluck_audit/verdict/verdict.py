"""What is said of a checkpoint and of a run, with the figures that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from potluck_audit.metrics.metric import Metric


class Verdict(StrEnum):
    """How a team earns its return. The rule is `verdict.rule`, its reasons `docs/audit/verdict.md`."""

    COOPERATIVE = "cooperative"
    """Everybody is needed, and the team earns more than the sum of its members alone."""
    PARALLEL = "parallel"
    """Nobody is idle weight, and the team earns what its members would earn side by side, or less."""
    CARRIED = "carried by one"
    """One agent is needed; the others are busy, and nothing is lost without them."""
    FREE_RIDING = "free-riding"
    """Somebody shares a return that would be the same without it, idly or while several others work."""
    UNDECIDED = "undecided"
    """Nothing is earned, or the intervals are too wide."""


@dataclass(frozen=True)
class CheckpointVerdict:
    """One checkpoint. `round` is the round after which its adapters were saved."""

    round: int
    verdict: Verdict
    reason: str
    """One sentence with figures."""
    metrics: Sequence[Metric] = ()
    """`return`, `coalition`, `solo`, `synergy`, `necessity`, the cooperation measures; set `checkpoint/<round>`."""
    episodes: int = 0
    baseline: str = "noop"
    """How agents outside a coalition act."""

    def find(self, name: str, agent: str = "", key: str = "") -> Metric | None:
        """The metric of that name, or None."""
        return next((m for m in self.metrics if (m.name, m.agent, m.key) == (name, agent, key)), None)


class Outcome(StrEnum):
    """Of a run's gate."""

    COUPLED = "coupled"
    """No sign of a rise of reward with a fall of cooperation."""
    DECOUPLED = "decoupled"
    """Reward rose while cooperation fell."""
    UNDECIDABLE = "undecidable"
    """Too little was measured to tell."""


@dataclass(frozen=True)
class Comparison:
    """A measure and the reward at an earlier checkpoint against the last one, paired by seed."""

    round: int
    """The earlier checkpoint."""
    measure: str
    reward: Metric
    """Last minus earlier."""
    change: Metric
    """Last minus earlier."""
    p_value: float | None
    """Of "reward rose and the measure fell"; None where it cannot be tested."""
    p_holm: float | None
    """Corrected for all comparisons of the run."""


@dataclass(frozen=True)
class Decoupling:
    """Reward against cooperation over a run's checkpoints."""

    outcome: Outcome
    reason: str
    checkpoints: Sequence[CheckpointVerdict]
    comparisons: Sequence[Comparison] = ()
    references: Sequence[Metric] = ()
    """`return` of the teams `uniform` and `frozen` (the key) on the same seeds."""
    level: float = 0.05
    """Of the corrected tests."""
    unit: str = "reward"
