"""The river of Cleanup: how dirty it is, who cleans it, and what cleaning brings.

The dirt fraction counts dirty cells of those that can be dirty; where the game's number of such cells is not known it
is undefined. A cell that is cleaned without having been told dirty was dirty from the start.
"""

from __future__ import annotations

import numpy as np

from potluck_audit.intervals import Floats, Intervals
from potluck_audit.metrics.deliveries import gini
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.patches import STRIDE
from potluck_audit.metrics.substrates import Substrate, substrate_of, told
from potluck_audit.records import Episode
from potluck_audit.statistics import jackknife


def dirt(episode: Episode, river_cells: int | None) -> Floats | None:
    """Dirt fraction after each step; None where the number of river cells is unknown, or no event tells of dirt."""
    if not river_cells or not any(event.kind in ("dirt", "clean") for _, event in episode.events):
        return None
    changes: dict[int, list[tuple[str, tuple[int, int]]]] = {}
    dirty, seen = set(), set()
    for step, event in episode.events:
        if event.kind in ("dirt", "clean"):
            cell = (event.x, event.y)
            changes.setdefault(step, []).append((event.kind, cell))
            if event.kind == "clean" and cell not in seen:
                dirty.add(cell)
            seen.add(cell)
    fractions = np.zeros(episode.steps)
    for step in range(episode.steps):
        for kind, cell in changes.get(step, ()):
            dirty.add(cell) if kind == "dirt" else dirty.discard(cell)
        fractions[step] = len(dirty) / river_cells
    return fractions


def river(episodes: EpisodeSet, intervals: Intervals, substrate: Substrate | None = None) -> list[Metric]:
    """`dirt_fraction` (mean, and by step), `river_open_share`, cleans per agent, and apples per clean."""
    constants = substrate or substrate_of(episodes)
    agents, events = episodes.agents, [[event for _, event in e.events] for e in told(episodes)]
    if not constants.river_cells and not any(v.kind in ("dirt", "clean") for es in events for v in es):
        return []
    counts = [[sum(v.kind == "clean" and v.agent == a for v in es) for a in agents] for es in events]
    cleans: Floats = np.array(counts, float).reshape(len(events), len(agents))
    apples = [float(sum(v.kind == "eat" for v in es)) for es in events]
    name, metrics = episodes.name, _dirt(episodes, constants, intervals)
    for seat, agent in enumerate(agents):
        own = cleans[:, seat]
        metrics.append(Metric("cleans", name, intervals.mean(list(own)), agent, unit="cells/episode"))
        metrics.append(Metric("clean_share", name, intervals.ratio(own, cleans.sum(axis=1)), agent, unit="share"))
    index = jackknife(gini, cleans, intervals)
    metrics.append(Metric("cleans_gini", name, index, unit="index"))
    worth = intervals.ratio(apples, cleans.sum(axis=1))
    metrics.append(Metric("apples_per_clean", name, worth, unit="apples"))
    return metrics


def _dirt(episodes: EpisodeSet, constants: Substrate, intervals: Intervals) -> list[Metric]:
    name, fractions = episodes.name, [dirt(e, constants.river_cells) for e in episodes.episodes]
    mean = intervals.mean([None if f is None else float(f.mean()) for f in fractions])
    limit = constants.growth_limit
    opened = [None if f is None or limit is None else float((f < limit).mean()) for f in fractions]
    metrics = [
        Metric("dirt_fraction", name, mean, unit="share of river cells"),
        Metric("river_open_share", name, intervals.mean(opened), unit="share of steps"),
    ]
    longest = max((len(f) for f in fractions if f is not None), default=0)
    for step in sorted({*range(0, longest, STRIDE), longest - 1} if longest else ()):
        there = [float(f[step]) if f is not None and step < len(f) else None for f in fractions]
        metrics.append(Metric("dirt_fraction", name, intervals.mean(there), key=str(step), unit="share of river cells"))
    return metrics
