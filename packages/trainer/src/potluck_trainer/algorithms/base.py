"""What an advantage estimator is given and gives back.

The unit is the episode (a group member): its decisions never count as members of their own. A member that failed is
absent from `RoundReturns.episodes` and so from every mean and deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import NonFiniteError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EpisodeReturns:
    """One member of a round."""

    member: int
    team_return: float
    step_rewards_T: Floats
    """Team reward of each step played."""
    decision_steps: dict[str, tuple[int, ...]]
    """Agent -> steps played before each of its decisions."""
    decision_keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Agent -> the game's coarse state key at each of its decisions."""
    credits: dict[str, float] = field(default_factory=dict)
    """Agent -> its Shapley credit in this episode; only for estimators that ask for coalitions."""


@dataclass(frozen=True, slots=True)
class RoundReturns:
    """The members of a round that finished."""

    episodes: tuple[EpisodeReturns, ...]


class Skip(StrEnum):
    """Why a round gives no update."""

    ZERO_VARIANCE = "zero_variance"
    SINGLE_MEMBER = "single_member"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Advantages:
    """Per member and agent, one advantage a decision; none when the round is skipped."""

    values: dict[int, dict[str, Floats]]
    skip: Skip | None = None
    baseline: float = 0.0
    scale: float = 0.0


Estimator = Callable[[RoundReturns, AlgorithmConfig], Advantages]


def asks_for_coalitions(estimator: Estimator) -> Estimator:
    """Marks an estimator that needs `EpisodeReturns.credits`: the trainer then plays the coalitions of every round."""
    estimator.coalitions = True  # type: ignore[attr-defined]
    return estimator


def needs_coalitions(estimator: Estimator) -> bool:
    """Whether an estimator is marked so."""
    return bool(getattr(estimator, "coalitions", False))


def finite_rewards(episode: EpisodeReturns) -> Floats:
    """The step rewards of an episode, [T]. Raises NonFiniteError if one is NaN or infinite."""
    if not np.isfinite(episode.step_rewards_T).all():
        raise NonFiniteError(f"episode {episode.member} has a step reward that is not finite; look into the game")
    return episode.step_rewards_T


def is_flat(std: float, values: Floats, floor: float) -> bool:
    """Whether a deviation is rounding noise, judged in units of the values' own scale."""
    scale = float(np.max(np.abs(values))) if values.size else 0.0
    return std <= floor * scale
