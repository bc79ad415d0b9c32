"""A windowed return-to-go advantage (ours, not the paper's).

G_k(t) = team rewards of episode k in (t, t + W]. A decision taken at step t gets (G_k(t) − mean over the episodes at
the same t) / std, with one std of the centred values over all episodes and steps of the round. The baseline goes by
environment time, never by decision index: an index means different times in different episodes once the policy
controls how long its options take, and such a baseline is biased.
"""

from __future__ import annotations

import numpy as np

from potluck_trainer.algorithms.base import Advantages, Floats, RoundReturns, Skip, finite_rewards, is_flat
from potluck_trainer.config import AlgorithmConfig


def windowed(rewards_T: Floats, window: int) -> Floats:
    """G(t) for t = 0..T−1."""
    sums = np.concatenate([[0.0], np.cumsum(rewards_T)])
    start = np.arange(len(rewards_T))
    end: Floats = sums[np.minimum(start + window, len(rewards_T))] - sums[start]
    return end


def estimator(returns: RoundReturns, config: AlgorithmConfig) -> Advantages:
    episodes = returns.episodes
    if not episodes:
        return Advantages({}, Skip.EMPTY)
    length = max(len(episode.step_rewards_T) for episode in episodes)
    G_KT = np.full((len(episodes), length), np.nan)
    for k, episode in enumerate(episodes):
        rewards_T = finite_rewards(episode)
        G_KT[k, : len(rewards_T)] = windowed(rewards_T, config.window)
    alive_T = np.isfinite(G_KT).sum(axis=0)
    baseline_T = np.nansum(G_KT, axis=0) / np.maximum(alive_T, 1)
    centred_KT = G_KT - baseline_T
    live = np.isfinite(centred_KT)
    std = float(centred_KT[live].std()) if live.any() else 0.0
    mean = float(np.mean([episode.team_return for episode in episodes]))
    if len(episodes) < 2:
        return Advantages({}, Skip.SINGLE_MEMBER, mean, std)
    if is_flat(std, G_KT[live], config.std_floor):
        return Advantages({}, Skip.ZERO_VARIANCE, mean, std)
    values = {
        episode.member: {
            agent: centred_KT[k, list(steps)] / std if steps else np.zeros(0)
            for agent, steps in episode.decision_steps.items()
        }
        for k, episode in enumerate(episodes)
    }
    return Advantages(values, None, mean, std)
