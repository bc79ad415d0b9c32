"""Where agents are: environment steps spent on each cell."""

from __future__ import annotations

from collections import Counter

from potluck_audit.metrics.metric import EpisodeSet


def visits(episodes: EpisodeSet) -> dict[str, Counter[tuple[int, int]]]:
    """Steps by agent and cell (x, y), over all episodes of the set."""
    found: dict[str, Counter[tuple[int, int]]] = {agent: Counter() for agent in episodes.agents}
    for episode in episodes.episodes:
        for record in episode.progress.steps:
            for agent, at in zip(episode.agents, record.agents, strict=False):
                found[agent][at.x, at.y] += 1
    return found
