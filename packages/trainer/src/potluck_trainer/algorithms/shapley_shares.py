"""Each agent's own credit, shared among its decisions.

Agent i's standardised credit in episode k (as in `shapley_advantage`) is shared among its n decisions in the two-pool
form: Â_i,k,t = n w_t Â_i,k with weights that sum to 1. A decision's label is its centred return-to-go (as in
`keyed_return_to_go`): how much better the team did after it than after the agent's other decisions in the same state.
So the mean advantage of an episode's decisions is still the agent's, and decisions whose aftermath speaks against it
get the other sign.
"""

from __future__ import annotations

import numpy as np

from potluck_trainer.algorithms.base import Advantages, RoundReturns, Skip, asks_for_coalitions
from potluck_trainer.algorithms.credit import two_pool
from potluck_trainer.algorithms.keyed_return_to_go import centred_gains
from potluck_trainer.algorithms.shapley_advantage import standard_credits
from potluck_trainer.config import AlgorithmConfig


@asks_for_coalitions
def estimator(returns: RoundReturns, config: AlgorithmConfig) -> Advantages:
    episodes = returns.episodes
    if not episodes:
        return Advantages({}, Skip.EMPTY)
    mean = float(np.mean([episode.team_return for episode in episodes]))
    if len(episodes) < 2:
        return Advantages({}, Skip.SINGLE_MEMBER, mean)
    standard, scale = standard_credits(returns, config.std_floor)
    if not standard:
        return Advantages({}, Skip.ZERO_VARIANCE, mean, scale)
    labels = centred_gains(episodes, config.window)
    values = {
        episode.member: {
            agent: len(steps) * standard[agent][k] * two_pool(labels[episode.member][agent], standard[agent][k])
            if agent in standard and steps
            else np.zeros(len(steps))
            for agent, steps in episode.decision_steps.items()
        }
        for k, episode in enumerate(episodes)
    }
    return Advantages(values, None, mean, scale)
