"""Returns of coalitions on common seeds: agents of the coalition keep their policy, the others act by a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from potluck_audit.metrics.metric import EpisodeSet

Coalition = frozenset[str]


@dataclass(frozen=True)
class CoalitionValues:
    """What each coalition earned, seed by seed in the same order."""

    players: tuple[str, ...]
    baseline: str
    seeds: tuple[int, ...]
    returns: Mapping[Coalition, tuple[float, ...]] = field(default_factory=dict)

    @property
    def everyone(self) -> Coalition:
        return frozenset(self.players)

    def mean(self, members: Coalition) -> float:
        return float(np.mean(self.returns[members]))

    def name(self, members: Coalition) -> str:
        return "+".join(p for p in self.players if p in members)


def recorded_values(team: EpisodeSet, solos: Mapping[str, EpisodeSet], baseline: str = "noop") -> CoalitionValues:
    """The team's own returns, and those of solo sets played on the same seeds with the baseline for partners."""
    mine = {e.seed: e.team_return for e in team.episodes if e.team_return is not None}
    seeds = tuple(mine)
    returns: dict[Coalition, tuple[float, ...]] = {frozenset(team.agents): tuple(mine.values())}
    for agent, solo in solos.items():
        others = {policy for e in solo.episodes for name, policy in e.policies.items() if name != agent}
        theirs = {e.seed: e.team_return for e in solo.episodes}
        values = [theirs.get(seed) for seed in seeds]
        if others == {baseline} and all(v is not None for v in values):
            returns[frozenset({agent})] = tuple(v for v in values if v is not None)
    return CoalitionValues(team.agents, baseline, seeds, returns)
