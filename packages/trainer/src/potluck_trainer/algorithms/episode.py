"""PA-MAGRPO's advantage: Â_k = (R_k − mean) / std, one scalar for every agent and decision of episode k.

R_k is the undiscounted team count and std the population's. A round whose returns do not differ, or with fewer than
two members, has no signal: no update, and it is counted.
"""

from __future__ import annotations

import numpy as np

from potluck_trainer.algorithms.base import Advantages, RoundReturns, Skip, is_flat
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import NonFiniteError


def estimator(returns: RoundReturns, config: AlgorithmConfig) -> Advantages:
    episodes = returns.episodes
    if not episodes:
        return Advantages({}, Skip.EMPTY)
    R_K = np.array([episode.team_return for episode in episodes], dtype=np.float64)
    if not np.isfinite(R_K).all():
        bad = episodes[int(np.flatnonzero(~np.isfinite(R_K))[0])].member
        raise NonFiniteError(f"episode {bad} of the round has return {R_K}; look into the game's reward")
    mean, std = float(R_K.mean()), float(R_K.std())
    if len(episodes) < 2:
        return Advantages({}, Skip.SINGLE_MEMBER, mean, std)
    if is_flat(std, R_K, config.std_floor):
        return Advantages({}, Skip.ZERO_VARIANCE, mean, std)
    values = {
        episode.member: {
            agent: np.full(len(steps), (episode.team_return - mean) / std)
            for agent, steps in episode.decision_steps.items()
        }
        for episode in episodes
    }
    return Advantages(values, None, mean, std)
