"""Whose choice it was at a boundary where several may have decided, and which choice would have been better.

At the boundary three kinds of branches are played under the same noise, others' choices there as recorded:

    taken       the recorded choices of all
    redecided   one agent is asked again (by the continuation policy)
    given       one agent takes another item of its menu

The agent is the one whose asking again restores most; where the policy would do the same again, the one that has the
best other item. All items are screened; the best is then estimated anew on noise it was not chosen by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from potluck.play.specs import DecisionRecord, Given
from potluck_audit.blame.branches import Branch, Branches
from potluck_audit.blame.results import Choice, Gain
from potluck_audit.blame.trace import Moment
from potluck_audit.intervals import Floats

FRESH = 1_000_000
"""First noise number of estimates that follow a selection."""


@dataclass(frozen=True)
class Finding:
    """One agent at a boundary."""

    decision: DecisionRecord
    best: Choice | None
    gain: Gain | None
    """Of the best other item over the taken one."""
    worst: Choice | None
    lead: Gain | None
    """Of the taken item over the worst other one."""
    redecided: Gain
    """Of asking again over the taken item."""


def choice_of(decision: DecisionRecord, place: int | None = None) -> Choice:
    item = decision.prompt.items[decision.index if place is None else place]
    return Choice(item.letter, item.option, item.target, item.text)


@dataclass(frozen=True)
class _Agent:
    """One deciding agent and what the others took."""

    moment: Moment
    decision: DecisionRecord

    @property
    def others(self) -> dict[str, Given]:
        return {agent: item for agent, item in self.moment.taken.items() if agent != self.decision.agent}

    @property
    def places(self) -> list[int]:
        """Of the items that it did not take."""
        return [place for place in range(len(self.decision.prompt.items)) if place != self.decision.index]

    def again(self, noises: Sequence[int]) -> list[Branch]:
        return [Branch(self.moment.boundary, noise, self.others) for noise in noises]

    def given(self, place: int, noises: Sequence[int]) -> list[Branch]:
        item = self.decision.prompt.items[place]
        choices: dict[str, Given] = {**self.others, self.decision.agent: (item.option, item.target)}
        return [Branch(self.moment.boundary, noise, choices) for noise in noises]


async def findings(branches: Branches, moment: Moment, threshold: float, plays: int) -> list[Finding]:
    """One finding per deciding agent, in two rounds of branches. Raises OutOfBudget."""
    noises, fresh = range(plays), range(FRESH, FRESH + plays)
    agents = [_Agent(moment, decision) for decision in moment.decisions]
    taken = [Branch(moment.boundary, noise, moment.taken) for noise in noises]
    groups = [taken]
    for agent in agents:
        groups += [agent.again(noises), *(agent.given(place, noises) for place in agent.places)]
    played = iter(await _grouped(branches, groups))
    recorded, screens = next(played), []
    for agent in agents:
        again = next(played)
        screened = {place: next(played) for place in agent.places}
        screens.append((again, screened, *_extremes(screened, threshold)))
    renewed = [[Branch(moment.boundary, noise, moment.taken) for noise in fresh]]
    renewed += [
        agent.given(best, fresh) for agent, (_, _, best, _) in zip(agents, screens, strict=True) if best is not None
    ]
    anew = iter(await _grouped(branches, renewed))
    base = next(anew)
    return [
        Finding(
            agent.decision,
            None if best is None else choice_of(agent.decision, best),
            None if best is None else gain(next(anew), base, threshold),
            None if worst is None else choice_of(agent.decision, worst),
            None if worst is None else gain(recorded, screened[worst], threshold),
            gain(again, recorded, threshold),
        )
        for agent, (again, screened, best, worst) in zip(agents, screens, strict=True)
    ]


async def _grouped(branches: Branches, groups: Sequence[Sequence[Branch]]) -> list[list[float]]:
    """Returns by group, all played together."""
    returns = iter(await branches.returns([branch for group in groups for branch in group]))
    return [[next(returns) for _ in group] for group in groups]


def _extremes(screened: Mapping[int, Sequence[float]], threshold: float) -> tuple[int | None, int | None]:
    """Places of the best and of the worst other item, by success and then by return."""

    def value(place: int) -> tuple[float, float]:
        returns = np.asarray(screened[place])
        return float((returns >= threshold).mean()), float(returns.mean())

    if not screened:
        return None, None
    return max(screened, key=lambda p: (*value(p), -p)), min(screened, key=lambda p: (*value(p), p))


def gain(better: Sequence[float], worse: Sequence[float], threshold: float) -> Gain:
    """Paired by noise."""
    returns = np.asarray(better, float) - np.asarray(worse, float)
    success = (np.asarray(better) >= threshold).astype(float) - (np.asarray(worse) >= threshold)
    return Gain(float(success.mean()), _error(success), float(returns.mean()), _error(returns), len(returns))


def _error(differences: Floats) -> float | None:
    count = len(differences)
    return float(differences.std(ddof=1) / np.sqrt(count)) if count > 1 else None
