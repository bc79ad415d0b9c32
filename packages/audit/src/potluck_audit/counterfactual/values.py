"""Returns of coalitions on common seeds: agents of the coalition keep their policy, the others act by a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.records import Episode

Coalition = frozenset[str]


@dataclass(frozen=True)
class CoalitionValues:
    """What each coalition earned, seed by seed in the same order."""

    players: tuple[str, ...]
    baseline: str
    seeds: tuple[int, ...]
    returns: Mapping[Coalition, tuple[float, ...]] = field(default_factory=dict)
    left_out: int = 0
    """Episodes of the set whose record holds no return: no coalition is compared on their seeds."""

    @property
    def everyone(self) -> Coalition:
        return frozenset(self.players)

    def mean(self, members: Coalition) -> float:
        return float(np.mean(self.returns[members]))

    def name(self, members: Coalition) -> str:
        return "+".join(p for p in self.players if p in members)


def recorded_values(team: EpisodeSet, solos: Mapping[str, EpisodeSet], baseline: str = "noop") -> CoalitionValues:
    """The team's own returns, and those of solo sets played by the same policies on the same seeds, with the baseline
    for partners."""
    known = [e for e in team.episodes if e.team_return is not None and math.isfinite(e.team_return)]
    seeds = tuple(e.seed for e in known)
    returns: dict[Coalition, tuple[float, ...]] = {}
    if known:
        returns[frozenset(team.agents)] = tuple(e.team_return for e in known if e.team_return is not None)
    for agent, solo in solos.items():
        theirs = {e.seed: e for e in solo.episodes if _solo_of(e, agent, known, baseline)}
        values = [theirs[seed].team_return if seed in theirs else None for seed in seeds]
        if values and all(v is not None for v in values):
            returns[frozenset({agent})] = tuple(v for v in values if v is not None)
    return CoalitionValues(team.agents, baseline, seeds, returns, len(team.episodes) - len(known))


def _solo_of(episode: Episode, agent: str, team: list[Episode], baseline: str) -> bool:
    """Whether it is the team's agent alone: a solo set may be older than the team's."""
    alike = ("game", "library_digest", "dynamics", "horizon", "temperature", "base_digest")
    mine = next((e for e in team if e.seed == episode.seed), None)
    return (
        mine is not None
        and all(policy == (baseline if name != agent else mine.policies.get(name))
                for name, policy in episode.policies.items())
        and episode.sample_seed == mine.sample_seed
        and all(getattr(episode, name) == getattr(mine, name) for name in alike)
    )  # fmt: skip
