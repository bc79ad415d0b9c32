"""Team return: mean over episodes with a bootstrap interval (key "") and Student's t interval (key "t")."""

from __future__ import annotations

from collections.abc import Sequence

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.testing import p_value_rows
from potluck_audit.statistics import paired_permutation


def team_return(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Episodes whose record holds no return are left out and seen in the count."""
    values = [e.team_return for e in episodes.episodes]
    return [
        Metric("return", episodes.name, intervals.mean(values), unit=episodes.unit),
        Metric("return", episodes.name, intervals.mean_t(values), key="t", unit=episodes.unit),
    ]


def gain(trained: EpisodeSet, other: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Difference of two sets, paired on the seeds that both have."""
    estimate = intervals.mean(differences(trained, other))
    return [Metric("return_gain", trained.name, estimate, key=other.name, unit=trained.unit)]


def gain_tests(trained: EpisodeSet, others: Sequence[EpisodeSet], intervals: Intervals) -> list[Metric]:
    """Whether any of the gains is there: paired permutation tests of all comparisons, corrected together."""
    p_values = {
        f"return_gain {other.name}": paired_permutation(differences(trained, other), intervals.seed) for other in others
    }
    return p_value_rows(trained.name, p_values, len(trained.episodes))


def differences(trained: EpisodeSet, other: EpisodeSet) -> list[float]:
    """Trained minus other on the seeds of which both have a return."""
    theirs = {e.seed: e.team_return for e in other.episodes}
    pairs = [(e.team_return, theirs.get(e.seed)) for e in trained.episodes]
    return [ours - base for ours, base in pairs if ours is not None and base is not None]
