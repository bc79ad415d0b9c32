"""A windowed return-to-go advantage whose baseline is the state's (ours, not the paper's).

G_k(t) = team rewards of episode k in (t, t + W], as in `return_to_go`. A decision taken in state key s gets G_k(t)
less the mean of G over the same agent's decisions in s, over all episodes of the round, divided by one std of these
differences. The mean is a critic without parameters: it takes out how good the state is, which in a small group
outweighs by far how good the choice was. It depends on the state alone, so it does not bias the gradient (a
decision's own part in the mean only scales it by (n - 1) / n); a key that was seen once gives advantage 0.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from potluck_trainer.algorithms.base import (
    Advantages,
    EpisodeReturns,
    Floats,
    RoundReturns,
    Skip,
    finite_rewards,
    is_flat,
)
from potluck_trainer.algorithms.return_to_go import windowed
from potluck_trainer.config import AlgorithmConfig


def estimator(returns: RoundReturns, config: AlgorithmConfig) -> Advantages:
    episodes = returns.episodes
    if not episodes:
        return Advantages({}, Skip.EMPTY)
    gains = _all_gains(episodes, config.window)
    mean = float(np.mean([episode.team_return for episode in episodes]))
    if len(episodes) < 2:
        return Advantages({}, Skip.SINGLE_MEMBER, mean)
    centred = centred_gains(episodes, config.window)
    std = float(np.concatenate([part for one in centred.values() for part in one.values()]).std())
    scale = np.concatenate([part for one in gains.values() for part in one.values()])
    if is_flat(std, scale, config.std_floor):
        return Advantages({}, Skip.ZERO_VARIANCE, mean, std)
    values = {member: {agent: part / std for agent, part in one.items()} for member, one in centred.items()}
    return Advantages(values, None, mean, std)


def centred_gains(episodes: tuple[EpisodeReturns, ...], window: int) -> dict[int, dict[str, Floats]]:
    """Member -> agent -> each decision's return-to-go less the mean over the agent's decisions in the same state."""
    gains = _all_gains(episodes, window)
    baseline = _baseline(episodes, gains)
    return {
        episode.member: {
            agent: gain - np.array([baseline[agent, key] for key in episode.decision_keys[agent]])
            for agent, gain in gains[episode.member].items()
        }
        for episode in episodes
    }


def _all_gains(episodes: tuple[EpisodeReturns, ...], window: int) -> dict[int, dict[str, Floats]]:
    return {episode.member: _gains(episode, window) for episode in episodes}


def _gains(episode: EpisodeReturns, window: int) -> dict[str, Floats]:
    G_T = windowed(finite_rewards(episode), window)
    return {agent: G_T[list(steps)] if steps else np.zeros(0) for agent, steps in episode.decision_steps.items()}


def _baseline(
    episodes: tuple[EpisodeReturns, ...], gains: dict[int, dict[str, Floats]]
) -> dict[tuple[str, str], float]:
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    for episode in episodes:
        for agent, keys in episode.decision_keys.items():
            for key, gain in zip(keys, gains[episode.member][agent], strict=True):
                seen[agent, key].append(float(gain))
    return {at: sum(values) / len(values) for at, values in seen.items()}
