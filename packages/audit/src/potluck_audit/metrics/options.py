"""What agents choose: option shares by decisions and by environment time, and how far agents differ.

Short options (waits) weigh more by decisions than by time, so both are given. The Jensen-Shannon divergence between
the agents' histograms weighs agents equally, in bits: 0 for equal habits, log2(agents) for disjoint ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.statistics import jackknife

WAIT = "wait"
WITHOUT_WAIT = "without_wait"
WEIGHTINGS = ("decisions", "time")


def option_names(episodes: EpisodeSet) -> tuple[str, ...]:
    """Option types that were chosen at least once, by name, waiting last."""
    names = {o.option for e in episodes.episodes for o in e.options}
    return tuple(sorted(names, key=lambda name: (name == WAIT, name)))


def option_counts(episodes: EpisodeSet, names: tuple[str, ...], weighting: str) -> NDArray[np.float64]:
    """Weights by (episode, agent, option)."""
    agents = {name: seat for seat, name in enumerate(episodes.agents)}
    options = {name: place for place, name in enumerate(names)}
    counts = np.zeros((len(episodes.episodes), len(agents), len(options)))
    for row, episode in enumerate(episodes.episodes):
        for run in episode.options:
            if run.agent in agents:
                counts[row, agents[run.agent], options[run.option]] += 1 if weighting == "decisions" else run.duration
    return counts


def jensen_shannon(histograms: Any) -> Any:
    """Divergence in bits between histograms (last axis) of agents (the axis before); NaN where an agent has none."""
    weights = np.asarray(histograms, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = weights / weights.sum(axis=-1, keepdims=True)
    return np.maximum(entropy(p.mean(axis=-2)) - entropy(p).mean(axis=-1), 0.0)


def entropy(p: Any) -> Any:
    """Shannon entropy in bits over the last axis."""
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=-1)


def option_shares(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    names = option_names(episodes)
    metrics: list[Metric] = []
    for weighting in WEIGHTINGS:
        counts = option_counts(episodes, names, weighting)
        for seat, agent in enumerate(episodes.agents):
            totals = counts[:, seat].sum(axis=1)
            for place, option in enumerate(names):
                estimate = intervals.ratio(counts[:, seat, place], totals)
                metrics.append(Metric(f"option_share_{weighting}", episodes.name, estimate, agent, option, "share"))
    return metrics


def divergence(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Jensen-Shannon divergence between agents, with and without waiting; undefined while an agent has no option."""
    names, agents = option_names(episodes), episodes.agents
    if len(agents) < 2:
        return []
    metrics = []
    for weighting in WEIGHTINGS:
        counts = option_counts(episodes, names, weighting)
        estimate = jackknife(jensen_shannon, counts, intervals)
        metrics.append(Metric(f"option_divergence_{weighting}", episodes.name, estimate, unit="bits"))
        if busy := [place for place, name in enumerate(names) if name != WAIT]:
            active = jackknife(jensen_shannon, counts[:, :, busy], intervals)
            name = f"option_divergence_{weighting}"
            metrics.append(Metric(name, episodes.name, active, key=WITHOUT_WAIT, unit="bits"))
    return metrics
