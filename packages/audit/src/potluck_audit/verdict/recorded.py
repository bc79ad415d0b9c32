"""The verdict on an evaluated team, where its coalitions were recorded or played: no checkpoint need be played."""

from __future__ import annotations

from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.verdict.measures import CheckpointPlay
from potluck_audit.verdict.rule import judge
from potluck_audit.verdict.verdict import CheckpointVerdict


def verdict_of(values: CoalitionValues, team: EpisodeSet, intervals: Intervals) -> CheckpointVerdict | None:
    """None unless the whole team, each agent alone and the team without each agent were played, nobody too unless the
    baseline does nothing. Its metrics are of the set `checkpoint/<round>` of the checkpoint that was evaluated."""
    everyone = values.everyone
    needed = {everyone, *(frozenset({p}) for p in values.players), *(everyone - {p} for p in values.players)}
    if values.baseline != "noop":
        needed.add(frozenset())
    if len(values.players) < 2 or not needed <= set(values.returns) or not values.seeds:
        return None
    seeds = set(values.seeds)
    episodes = [e for e in team.episodes if e.seed in seeds and e.team_return is not None]
    return judge(CheckpointPlay(episodes[0].round, values, EpisodeSet(team.name, episodes, team.unit)), intervals)


def verdict_notes(values: CoalitionValues, team: EpisodeSet, intervals: Intervals) -> list[str]:
    """The verdict in a sentence, or nothing."""
    found = verdict_of(values, team, intervals)
    if found is None:
        return []
    return [f"Verdict on {team.name} (with {found.baseline} partners): {found.verdict.value}, for {found.reason}."]
