"""Who delivered: rewarded events per agent, their shares, and the Gini index of the team's split.

The Gini index of all zeros is 0 (nobody has more than anybody), and negative amounts are refused, since the index
has no meaning for them; `negatives="zero"` counts them as nothing and the caller says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.statistics import jackknife


def gini(amounts: Any, *, negatives: str = "refuse") -> Any:
    """Gini index over the last axis."""
    x = np.asarray(amounts, float)
    if (x < 0).any():
        if negatives != "zero":
            raise ValueError("the Gini index is not defined for negative amounts")
        x = np.maximum(x, 0.0)
    x = np.sort(x, axis=-1)
    n = x.shape[-1]
    total = x.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        index = (x @ (2.0 * np.arange(1, n + 1) - n - 1)) / (n * total)
    return np.where(total == 0, 0.0, index)


def deliveries(episodes: EpisodeSet, intervals: Intervals) -> list[Metric]:
    """Rewarded events an episode, each agent's share, deliveries that paid nothing, and the Gini index."""
    agents, events = episodes.agents, [[event for _, event in e.events] for e in episodes.episodes]
    if not any(events):
        return []
    counts = np.array([[sum(v.agent == a and v.reward > 0 for v in es) for a in agents] for es in events], float)
    vain = [sum(v.kind == "deliver" and v.reward <= 0 for v in es) for es in events]
    metrics = []
    for seat, agent in enumerate(agents):
        mean = intervals.mean(list(counts[:, seat]))
        metrics.append(Metric("deliveries", episodes.name, mean, agent, unit=f"{episodes.unit}/episode"))
        share = intervals.ratio(counts[:, seat], counts.sum(axis=1))
        metrics.append(Metric("delivery_share", episodes.name, share, agent, unit="share"))
    metrics.append(
        Metric("deliveries_unpaid", episodes.name, intervals.mean([float(v) for v in vain]), unit="per episode")
    )
    index = jackknife(gini, counts, intervals)
    metrics.append(Metric("deliveries_gini", episodes.name, index, unit="index"))
    return metrics
