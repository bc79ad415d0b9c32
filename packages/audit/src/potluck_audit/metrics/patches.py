"""Patches of apples: how long they live, and whether agents spare the last apple.

A patch is a connected component of the apple cells of the whole set, cells within distance 2 being connected (the
radius of regrowth). It is alive while at least one of its apples is. A patch dies at the step from which on it has
no apple to the end of the episode; one that regrows was not dead.

Restraint is the share of decisions, taken next to the last apple of a patch, in whose course the agent did not eat
it. The cell before the first step is not recorded, so that decisions at step 0 are not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from potluck_audit.intervals import Floats, Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.paths import Cell, cells
from potluck_audit.metrics.substrates import told
from potluck_audit.records import Episode

REACH = 2.0
STRIDE = 40
"""Steps between the points of a curve."""


def patches(episodes: EpisodeSet) -> dict[Cell, int]:
    """Patch of each apple cell, numbered in reading order of their first cells."""
    found = {(v.x, v.y) for e in episodes.episodes for _, v in e.events if v.kind in ("grow", "eat")}
    places = sorted(found, key=lambda cell: (cell[1], cell[0]))
    if not places:
        return {}
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import cdist

    _, labels = connected_components(cdist(places, places) <= REACH, directed=False)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
    return {cell: numbers[label] for cell, label in zip(places, labels.tolist(), strict=True)}


class Orchard(NamedTuple):
    """Apples of an episode."""

    alive: NDArray[np.bool_]
    """(step, patch) after each step."""
    last: Sequence[Mapping[int, Cell]]
    """Before each step: the only live apple of each patch that has just one."""
    eaten: Mapping[str, Sequence[tuple[int, Cell]]]
    """By agent: steps and cells of its meals."""


def orchard(episode: Episode, patch_of: Mapping[Cell, int]) -> Orchard:
    """Follows the apples of an episode; one that was never told to grow is alive from the start."""
    by_step: dict[int, list[tuple[str, str, Cell]]] = {}
    live, seen = set(), set()
    for step, event in episode.events:
        if event.kind in ("grow", "eat"):
            cell = (event.x, event.y)
            by_step.setdefault(step, []).append((event.kind, event.agent, cell))
            if event.kind == "eat" and cell not in seen:
                live.add(cell)
            seen.add(cell)
    alive = np.zeros((episode.steps, max(patch_of.values(), default=-1) + 1), bool)
    last: list[Mapping[int, Cell]] = []
    eaten: dict[str, list[tuple[int, Cell]]] = {}
    for step in range(episode.steps):
        last.append(_single(live, patch_of))
        for kind, agent, cell in by_step.get(step, ()):
            if kind == "grow":
                live.add(cell)
            else:
                live.discard(cell)
                eaten.setdefault(agent, []).append((step, cell))
        alive[step, sorted({patch_of[cell] for cell in live})] = True
    return Orchard(alive, last, eaten)


def _single(live: set[Cell], patch_of: Mapping[Cell, int]) -> dict[int, Cell]:
    by_patch: dict[int, list[Cell]] = {}
    for cell in live:
        by_patch.setdefault(patch_of[cell], []).append(cell)
    return {patch: own[0] for patch, own in by_patch.items() if len(own) == 1}


def deaths(alive: NDArray[np.bool_]) -> list[int]:
    """First steps without an apple for good, in order; patches that live at the end are not among them."""
    ends = (int(np.flatnonzero(patch)[-1]) + 1 if patch.any() else 0 for patch in alive.T)
    return sorted(end for end in ends if end < len(alive))


def spared(episode: Episode, grown: Orchard) -> dict[str, tuple[int, int]]:
    """By agent: decisions next to a last apple, and how many of them did not eat it."""
    found = {}
    for seat, agent in enumerate(episode.agents):
        way = cells(episode, seat)
        if way is None:
            continue
        near = left = 0
        meals = set(grown.eaten.get(agent, ()))
        for run in (o for o in episode.options if o.agent == agent and 0 < o.start_step < len(way)):
            x, y = way[run.start_step - 1]
            beside = [c for c in grown.last[run.start_step].values() if abs(c[0] - x) + abs(c[1] - y) == 1]
            if beside:
                near += 1
                times = range(run.start_step, run.start_step + max(run.duration, 1))
                left += not any((step, cell) in meals for step in times for cell in beside)
        found[agent] = (near, left)
    return found


def commons(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Survival curve, its area, times of the k-th death, apples per patch-step, and restraint."""
    patch_of = patches(episodes)
    if not patch_of:
        return []
    episodes = replace(episodes, episodes=told(episodes))
    grown = [orchard(e, patch_of) for e in episodes.episodes]
    total = max(patch_of.values()) + 1
    return [
        *_survival(episodes, grown, total, intervals),
        *_deaths(episodes, grown, total, intervals),
        *_restraint(episodes, grown, intervals),
    ]


def _survival(episodes: EpisodeSet, grown: Sequence[Orchard], total: int, intervals: Intervals) -> list[Metric]:
    name, longest = episodes.name, max(e.steps for e in episodes.episodes)
    metrics = [Metric("patches", name, intervals.mean([float(total)] * len(grown)), unit="patches")]
    for step in sorted({*range(0, longest, STRIDE), longest - 1}):
        counts = [float(g.alive[step].sum()) if step < len(g.alive) else None for g in grown]
        metrics.append(Metric("patches_alive", name, intervals.mean(counts), key=str(step), unit="patches"))
    area = [float(g.alive.mean()) if len(g.alive) else None for g in grown]
    metrics.append(Metric("patch_survival_area", name, intervals.mean(area), unit="share of patch-steps"))
    eaten = [float(sum(map(len, g.eaten.values()))) for g in grown]
    rate = intervals.ratio(eaten, [float(g.alive.sum()) for g in grown])
    metrics.append(Metric("apples_per_patch_step", name, rate, unit="apples"))
    return metrics


def _deaths(episodes: EpisodeSet, grown: Sequence[Orchard], total: int, intervals: Intervals) -> list[Metric]:
    """The mean time is of the episodes that reached the k-th death: read it beside the share of those."""
    metrics, died = [], [deaths(g.alive) for g in grown]
    for k in range(1, total + 1):
        times = [float(d[k - 1]) if len(d) >= k else None for d in died]
        reached = intervals.mean([float(t is not None) for t in times])
        metrics.append(Metric("patch_death", episodes.name, intervals.mean(times), key=str(k), unit="step"))
        metrics.append(Metric("patch_death_share", episodes.name, reached, key=str(k), unit="share of episodes"))
    return metrics


def _restraint(episodes: EpisodeSet, grown: Sequence[Orchard], intervals: Intervals) -> list[Metric]:
    by_episode = [spared(e, g) for e, g in zip(episodes.episodes, grown, strict=True)]
    counts: Floats = np.array([[s.get(agent, (0, 0)) for agent in episodes.agents] for s in by_episode], float)
    metrics = []
    for seat, agent in enumerate(episodes.agents):
        share = intervals.ratio(counts[:, seat, 1], counts[:, seat, 0])
        metrics.append(Metric("restraint", episodes.name, share, agent, unit="share of decisions"))
    team = intervals.ratio(counts[:, :, 1].sum(axis=1), counts[:, :, 0].sum(axis=1))
    return [*metrics, Metric("restraint", episodes.name, team, unit="share of decisions")]
