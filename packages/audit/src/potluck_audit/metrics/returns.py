"""Team return: mean over episodes with a bootstrap interval (key "") and Student's t interval (key "t")."""

from __future__ import annotations

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric


def team_return(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Episodes whose record holds no return are left out and seen in the count."""
    values = [e.team_return for e in episodes.episodes]
    return [
        Metric("return", episodes.name, intervals.mean(values), unit=episodes.unit),
        Metric("return", episodes.name, intervals.mean_t(values), key="t", unit=episodes.unit),
    ]


def gain(trained: EpisodeSet, other: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Difference of two sets, paired on the seeds that both have."""
    theirs = {e.seed: e.team_return for e in other.episodes}
    pairs = [(e.team_return, theirs.get(e.seed)) for e in trained.episodes]
    differences = [ours - base for ours, base in pairs if ours is not None and base is not None]
    return [
        Metric("return_gain", trained.name, intervals.mean(differences), key=other.name, unit=trained.unit),
    ]
