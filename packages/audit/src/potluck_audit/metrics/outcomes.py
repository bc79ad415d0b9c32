"""Social outcomes of commons games (Perolat et al. 2017, arXiv:1707.06600, section 2.3), from individual consumption.

With R_i the apples that agent i ate in an episode of T steps among N agents, per episode and then averaged:

    efficiency      sum_i R_i / T
    equality        1 - sum_ij |R_i - R_j| / (2 N sum_i R_i); undefined where nobody ate, never 1
    sustainability  mean over the agents that ate of the mean step (from 0) of their meals; an agent that never ate has
                    no such step and is left out, so that cleaners do not show: read it beside `consumption`
    peace           (N T - steps that zapped agents were out) / T, at most N
    max_min         min_i R_i

Equality is 1 - Gini where somebody ate; the Gini index of nothing is 0 by its own rule.
"""

from __future__ import annotations

import numpy as np

from potluck_audit.intervals import Intervals
from potluck_audit.metrics.deliveries import gini
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.substrates import Substrate, is_commons, substrate_of, told
from potluck_audit.records import Episode


def equality(amounts: list[float]) -> float | None:
    """1 for equal shares, 1/N where one has all; None where there is nothing to share. Negatives are refused."""
    return None if sum(amounts) == 0 and not any(amounts) else 1.0 - float(gini(amounts))


def meals(episode: Episode) -> dict[str, list[int]]:
    """Steps at which each agent ate."""
    found: dict[str, list[int]] = {agent: [] for agent in episode.agents}
    for step, event in episode.events:
        if event.kind == "eat" and event.agent in found:
            found[event.agent].append(step)
    return found


def sustainability(episode: Episode) -> float | None:
    means = [float(np.mean(steps)) for steps in meals(episode).values() if steps]
    return float(np.mean(means)) if means else None


def peace(episode: Episode, zap_out: int | None) -> float | None:
    """Agents in play, on average over steps; a victim is out from the step after the zap, at most to the end."""
    if zap_out is None or not episode.steps:
        return None
    out: set[tuple[str, int]] = set()
    for step, event in episode.events:
        if event.kind == "zap" and event.object in episode.agents:
            out.update((event.object, s) for s in range(step + 1, min(step + 1 + zap_out, episode.steps)))
    return (len(episode.agents) * episode.steps - len(out)) / episode.steps


def outcomes(episodes: EpisodeSet, intervals: Intervals, substrate: Substrate | None = None) -> list[Metric]:
    """Consumption per agent and the social outcomes; nothing for games without a commons."""
    if not is_commons(episodes):
        return []
    zap_out = (substrate or substrate_of(episodes)).zap_out
    name, known = episodes.name, told(episodes)
    ate = [meals(e) for e in known]
    amounts = [[float(len(m[agent])) for agent in episodes.agents] for m in ate]
    metrics = []
    for seat, agent in enumerate(episodes.agents):
        own = intervals.mean([a[seat] for a in amounts])
        share = intervals.ratio([a[seat] for a in amounts], [sum(a) for a in amounts])
        metrics.append(Metric("consumption", name, own, agent, unit="apples/episode"))
        metrics.append(Metric("consumption_share", name, share, agent, unit="share"))
    efficiency = intervals.ratio([sum(a) for a in amounts], [float(e.steps) for e in known])
    calm = [peace(e, zap_out) for e in known]
    lasting = [sustainability(e) for e in known]
    return [
        *metrics,
        Metric("efficiency", name, efficiency, unit="apples/step"),
        Metric("equality", name, intervals.mean([equality(a) for a in amounts]), unit="index"),
        Metric("consumption_gini", name, intervals.mean([float(gini(a)) for a in amounts]), unit="index"),
        Metric("sustainability", name, intervals.mean(lasting), unit="step"),
        Metric("peace", name, intervals.mean(calm), unit="agents"),
        Metric("max_min", name, intervals.mean([min(a, default=None) for a in amounts]), unit="apples/episode"),
    ]
