"""All metrics and checks that an episode set's own records give."""

from __future__ import annotations

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.deliveries import deliveries
from potluck_audit.metrics.handoffs import handoffs, transfer_check
from potluck_audit.metrics.idle import idle_shares
from potluck_audit.metrics.metric import Check, EpisodeSet, Metric
from potluck_audit.metrics.options import divergence, option_shares
from potluck_audit.metrics.returns import team_return

MEASURES = (team_return, option_shares, divergence, idle_shares, deliveries, handoffs)


def behaviour(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    return [metric for measure in MEASURES for metric in measure(episodes, intervals)]


def checks(episodes: EpisodeSet) -> list[Check]:
    return [*transfer_check(episodes), *_returns_check(episodes)]


def _returns_check(episodes: EpisodeSet) -> list[Check]:
    """The recorded return is what the recorded steps paid."""
    known = [e for e in episodes.episodes if e.progress.steps and e.team_return is not None]
    wrong = [e for e in known if abs(sum(s.reward for s in e.progress.steps) - (e.team_return or 0.0)) > 1e-9]
    name = "step rewards add up to the recorded return"
    if not known:
        return [Check(name, episodes.name, None, "no step records")]
    named = f": {wrong[0].episode_id}" if wrong else ""
    return [Check(name, episodes.name, not wrong, f"{len(wrong)} of {len(known)} episodes differ{named}")]
