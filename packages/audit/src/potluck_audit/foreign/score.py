"""The exact scorer: agent, step, and step within ±k, each with an exact interval.

An agent is right when its whole name is the label's (without regard to case), a step when the numbers are equal:
predicted 10 is wrong for gold 1. No text is searched for in another. The interval of an accuracy is Clopper and
Pearson's (1934). A guesser's row holds the expected accuracy over its own draws, exactly, and the range that holds the
stated share of such guessers (Poisson-binomial).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import fsum
from typing import Any

import numpy as np

from potluck_audit.errors import InvalidRequest
from potluck_audit.foreign.log import FailureLog, folded
from potluck_audit.foreign.predictions import NOTHING, Prediction
from potluck_audit.intervals import UNDEFINED, Estimate

TOLERANCES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Row:
    """One method over one group of logs."""

    method: str
    logs: int
    agent: Estimate
    step: Estimate
    within: Mapping[int, Estimate]
    """By k."""
    unparsable_agents: int = 0
    unparsable_steps: int = 0
    expected: bool = False
    """Whether the numbers are expectations of a guesser, and low and high the range of such guessers."""
    cost: Mapping[str, int | None] = field(default_factory=dict)
    note: str = ""


def agent_right(log: FailureLog, answer: Prediction) -> bool:
    return answer.agent is not None and folded(answer.agent) == folded(log.mistake_agent)


def step_right(log: FailureLog, answer: Prediction, within: int = 0) -> bool:
    return answer.step is not None and abs(answer.step - log.mistake_step) <= within


def score(
    method: str,
    logs: Sequence[FailureLog],
    answers: Mapping[str, Prediction],
    *,
    tolerances: Sequence[int] = TOLERANCES,
    confidence: float = 0.95,
    **more: Any,
) -> Row:
    """Answers by log name. A log without one counts as unparsable; an answer to an unknown log is refused."""
    if unknown := sorted(set(answers) - {log.name for log in logs}):
        raise InvalidRequest("predictions", f"there is no log {unknown[0]!r}", "name logs by their path in the folder")
    given = [answers.get(log.name, NOTHING) for log in logs]
    pairs = list(zip(logs, given, strict=True))
    return Row(
        method,
        len(logs),
        proportion(sum(agent_right(*p) for p in pairs), len(logs), confidence),
        proportion(sum(step_right(*p) for p in pairs), len(logs), confidence),
        {k: proportion(sum(step_right(*p, k) for p in pairs), len(logs), confidence) for k in tolerances},
        sum(a.agent is None for a in given),
        sum(a.step is None for a in given),
        **more,
    )


def proportion(right: int, total: int, confidence: float) -> Estimate:
    """Share with Clopper and Pearson's interval; undefined over nothing."""
    if not total:
        return UNDEFINED
    from scipy import stats  # seconds of CPU: not before there is something to score

    found = stats.binomtest(right, total).proportion_ci(confidence, method="exact")
    return Estimate(right / total, float(found.low), float(found.high), total)


def guesser(chances: Sequence[Fraction], confidence: float) -> Estimate:
    """Expected accuracy of independent guesses that are right with these chances, and the central range of it."""
    if not chances:
        return UNDEFINED
    ways = np.ones(1)
    for chance in chances:
        p = float(chance)
        ways = np.convolve(ways, (1 - p, p))
    tail, total = (1 - confidence) / 2, len(chances)
    low = int(np.searchsorted(np.cumsum(ways), tail, side="right"))
    high = total - int(np.searchsorted(np.cumsum(ways[::-1]), tail, side="right"))
    exact = sum(chances, Fraction()) / total
    return Estimate(float(exact), min(low, total) / total, max(high, 0) / total, total)


def mean_steps(logs: Sequence[FailureLog]) -> float | None:
    return fsum(len(log.history) for log in logs) / len(logs) if logs else None
