"""Ways of the agents: changes of cell in an episode, and how many different cells they stood on.

Positions are those after each step, so that the move of the very first step is not seen. A respawn counts as one
change. Both are undefined for an episode whose steps were not all recorded.
"""

from __future__ import annotations

from itertools import pairwise

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.records import Episode

Cell = tuple[int, int]


def cells(episode: Episode, seat: int) -> list[Cell] | None:
    """Cells of a seat after each step; None where a step or the seat is missing."""
    records = episode.progress.steps
    if not records or [r.step for r in records] != list(range(len(records))):
        return None
    if any(seat >= len(r.agents) for r in records):
        return None
    return [(r.agents[seat].x, r.agents[seat].y) for r in records]


def paths(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """`path_length` and `distinct_cells` per agent, means of episodes."""
    metrics = []
    for seat, agent in enumerate(episodes.agents):
        ways = [cells(e, seat) for e in episodes.episodes]
        lengths = [None if way is None else float(sum(a != b for a, b in pairwise(way))) for way in ways]
        places = [None if way is None else float(len(set(way))) for way in ways]
        metrics.append(Metric("path_length", episodes.name, intervals.mean(lengths), agent, unit="cells/episode"))
        metrics.append(Metric("distinct_cells", episodes.name, intervals.mean(places), agent, unit="cells/episode"))
    return metrics
