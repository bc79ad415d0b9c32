"""What a method must beat: answers that look at no word of the log they answer.

constant     the most frequent labelled agent, and step, of the *other* logs of the group (leave one out, so that
             a log's own label never answers it); ties go to the first in order of name or number
random       a uniform agent among those who speak, and a uniform step of the log: expected values, exactly
positional   the agents' first, middle and last step, and whoever speaks there
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from potluck_audit.foreign.log import FailureLog, folded
from potluck_audit.foreign.predictions import NOTHING, Prediction
from potluck_audit.foreign.score import TOLERANCES, Row, guesser, score

Label = TypeVar("Label", str, int)

POSITIONS: dict[str, Callable[[int], int]] = {
    "first step": lambda count: 0,
    "middle step": lambda count: (count - 1) // 2,
    "last step": lambda count: count - 1,
}


def baselines(
    logs: Sequence[FailureLog], *, tolerances: Sequence[int] = TOLERANCES, confidence: float = 0.95
) -> list[Row]:
    """The rows of the table that cost nothing."""
    options: dict[str, Any] = {"tolerances": tolerances, "confidence": confidence}
    rows = [
        score("constant (leave one out)", logs, constant(logs), note="most frequent in the other logs", **options),
        score("constant (in hindsight)", logs, hindsight(logs), note="chosen on these very labels", **options),
        uniform(logs, tolerances, confidence),
    ]
    for name, place in POSITIONS.items():
        rows.append(score(name, logs, {log.name: _at(log, place) for log in logs}, **options))
    return rows


def constant(logs: Sequence[FailureLog]) -> dict[str, Prediction]:
    """Nothing where there are no other logs."""
    agents = _leave_one_out([folded(log.mistake_agent) for log in logs])
    steps = _leave_one_out([log.mistake_step for log in logs])
    return {log.name: Prediction(agent, step) for log, agent, step in zip(logs, agents, steps, strict=True)}


def hindsight(logs: Sequence[FailureLog]) -> dict[str, Prediction]:
    """The most frequent labels of all logs."""
    agent = _most_frequent(Counter(folded(log.mistake_agent) for log in logs))
    step = _most_frequent(Counter(log.mistake_step for log in logs))
    return {log.name: Prediction(agent, step) for log in logs}


def _most_frequent(counts: Counter[Label]) -> Label | None:
    best = min(counts, key=lambda one: (-counts[one], one), default=None)
    return best if best is not None and counts[best] else None


def _leave_one_out(labels: Sequence[Label]) -> list[Label | None]:
    counts = Counter(labels)
    found: list[Label | None] = []
    for label in labels:
        counts[label] -= 1
        found.append(_most_frequent(counts))
        counts[label] += 1
    return found


def uniform(logs: Sequence[FailureLog], tolerances: Sequence[int], confidence: float) -> Row:
    """An agent who never speaks cannot be guessed."""
    by_k = {k: guesser([_step_chance(log, k) for log in logs], confidence) for k in tolerances}
    agent = guesser([_agent_chance(log) for log in logs], confidence)
    step = guesser([_step_chance(log, 0) for log in logs], confidence)
    return Row("uniform random", len(logs), agent, step, by_k, expected=True, note="expected; range of such guessers")


def _agent_chance(log: FailureLog) -> Fraction:
    spoken = folded(log.mistake_agent) in {folded(agent) for agent in log.agents}
    return Fraction(1, len(log.agents)) if spoken else Fraction(0)


def _step_chance(log: FailureLog, within: int) -> Fraction:
    steps = len(log.history)
    first, last = max(0, log.mistake_step - within), min(steps - 1, log.mistake_step + within)
    return Fraction(last - first + 1, steps)


def _at(log: FailureLog, place: Callable[[int], int]) -> Prediction:
    if not log.agent_steps:
        return NOTHING
    step = log.agent_steps[place(len(log.agent_steps))]
    return Prediction(log.history[step].speaker, step)
