"""Idle shares in environment steps: waiting by choice, blocked by another agent, and the no-op of a baseline."""

from __future__ import annotations

from collections import Counter

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.records import Episode

KINDS = {
    "wait": env_pb.ACTIVITY_WAIT,
    "blocked": env_pb.ACTIVITY_BLOCKED,
    "noop": env_pb.ACTIVITY_NOOP,
}


def activities(episode: Episode, seat: int) -> Counter[int]:
    """Steps by activity; steps whose activity was not recorded are not counted at all."""
    return Counter(
        record.agents[seat].activity
        for record in episode.progress.steps
        if seat < len(record.agents) and record.agents[seat].activity != env_pb.ACTIVITY_UNSPECIFIED
    )


def idle_shares(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Per agent and kind, and their sum under the key "all"."""
    metrics: list[Metric] = []
    for seat, agent in enumerate(episodes.agents):
        counts = [activities(e, seat) for e in episodes.episodes]
        totals = [float(c.total()) for c in counts]
        for key, kinds in [*((k, (v,)) for k, v in KINDS.items()), ("all", tuple(KINDS.values()))]:
            idle = [float(sum(c[kind] for kind in kinds)) for c in counts]
            metrics.append(Metric("idle_share", episodes.name, intervals.ratio(idle, totals), agent, key, "share"))
    return metrics
