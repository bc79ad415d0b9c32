"""Partners swapped: agents of one team beside those of another, and beside partners that learned nothing.

    M_i[a, b]       seat i by team a's agent, every other seat by team b's         (b = a: the team itself)
    self-play SP    mean over teams of M[a, a]
    cross-play XP   mean over seats and over pairs of different teams of M_i[a, b]
    gap             (SP - XP) / SP, undefined where SP is 0

Teams come from different training seeds or from checkpoints of one run. A small gap does not prove that agents adapt:
all teams may share one convention. `partner` pairs one agent with baselines (`uniform`, the scripted `greedy`), and
`rotated` seats a team's own agents one seat further. Everything is played on the same seeds; the intervals are over
episodes, with the teams as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from potluck_audit.counterfactual.lineups import Lineup, whole
from potluck_audit.counterfactual.playing import Players, Stage
from potluck_audit.counterfactual.setting import Incomparable, Setting
from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import UNDEFINED, Floats, Intervals
from potluck_audit.metrics.metric import Metric
from potluck_audit.progress import OnStage

PARTNERS = ("uniform", "greedy")
SET = "swap"


@dataclass(frozen=True)
class Team:
    """Agents that learned together."""

    label: str
    own: Mapping[str, str]
    """Agent to policy, in seat order."""


@dataclass(frozen=True)
class Swaps:
    """What was played: returns by seed."""

    teams: tuple[Team, ...]
    unit: str
    matrix: Mapping[tuple[str, str, str], Floats]
    """(seat, its team, the other seats' team)."""
    partners: Mapping[tuple[str, str, str], Floats]
    """(team, its agent, baseline of the other seats)."""
    rotated: Mapping[str, Floats]


def mixed(seat: str, one: Team, other: Team) -> Lineup:
    """Seat by `one`, every other seat by `other`."""
    return whole({agent: (one if agent == seat else other).own[agent] for agent in one.own})


def rotation(team: Team) -> Lineup:
    """Every policy plays one seat further than it learned in."""
    agents = list(team.own)
    return whole({agent: team.own[agents[place - 1]] for place, agent in enumerate(agents)})


async def play_swaps(
    teams: Sequence[Team],
    setting: Setting,
    players: Players,
    on_stage: OnStage,
    partners: Sequence[str] = PARTNERS,
) -> Swaps:
    """Plays all pairings, each once. Raises Incomparable, InvalidRequest, CorruptCache."""
    _check(teams)
    agents = tuple(teams[0].own)
    pairings = {(i, a.label, b.label): mixed(i, a, b) for i in agents for a in teams for b in teams}
    beside = {(a.label, i, p): Lineup(a.own, frozenset({i}), p) for a in teams for i in agents for p in partners}
    turned = {a.label: rotation(a) for a in teams}
    stage = Stage(setting, players.run, SET)
    lineups = [*pairings.values(), *beside.values(), *turned.values()]
    played = [
        np.array([one.team_return for one in episodes], float)
        for episodes in await stage.play(lineups, players, on_stage)
    ]
    returns = iter(played)
    return Swaps(
        tuple(teams),
        setting.unit,
        {key: next(returns) for key in pairings},
        {key: next(returns) for key in beside},
        {key: next(returns) for key in turned},
    )


def _check(teams: Sequence[Team]) -> None:
    if not teams:
        raise InvalidRequest("runs", "there is no team", "name at least one run")
    labels = [team.label for team in teams]
    if len(set(labels)) != len(labels):
        raise InvalidRequest(
            "runs", "two teams have the same name", "name each run once, and give runs names of their own"
        )
    for team in teams[1:]:
        if tuple(team.own) != tuple(teams[0].own):
            raise Incomparable("runs", f"{teams[0].label} and {team.label} differ in their agents")
    if len(teams[0].own) < 2:
        raise InvalidRequest("runs", "a team of one agent has no partners", "name runs of a game with several agents")


def swap_rows(found: Swaps, intervals: Intervals) -> list[Metric]:
    """`pairing`, `partner`, `rotated`, `self_play`, `cross_play` and `cross_play_gap`."""
    unit, rows = found.unit, []
    for (seat, one, other), returns in found.matrix.items():
        key = one if one == other else f"{one} with {other}"
        rows.append(Metric("pairing", SET, intervals.mean(list(returns)), seat, key, unit))
    for (team, agent, baseline), returns in found.partners.items():
        rows.append(Metric("partner", SET, intervals.mean(list(returns)), agent, f"{team} with {baseline}", unit))
    for team, returns in found.rotated.items():
        rows.append(Metric("rotated", SET, intervals.mean(list(returns)), key=team, unit=unit))
    return rows + _summary(found, intervals)


def _summary(found: Swaps, intervals: Intervals) -> list[Metric]:
    own = np.mean([r for (_, one, other), r in found.matrix.items() if one == other], axis=0)
    crossed = [r for (_, one, other), r in found.matrix.items() if one != other]
    rows = [Metric("self_play", SET, intervals.mean(list(own)), unit=found.unit)]
    if not crossed:
        nothing = UNDEFINED._replace(episodes=len(own))
        rows.append(Metric("cross_play", SET, nothing, unit=found.unit))
        return [*rows, Metric("cross_play_gap", SET, nothing, unit="share of self-play")]
    cross = np.mean(crossed, axis=0)
    rows.append(Metric("cross_play", SET, intervals.mean(list(cross)), unit=found.unit))
    gap = intervals.of_sums(_gap, own, cross)
    return [*rows, Metric("cross_play_gap", SET, gap, unit="share of self-play")]


def _gap(own: Any, cross: Any) -> Any:
    return np.where(np.asarray(own) > 0, (own - cross) / np.where(np.asarray(own) > 0, own, 1.0), np.nan)
