"""Each agent's own credit in place of the shared return: Â_i,k = (phi_i,k − mean_k phi_i) / std_k phi_i.

phi_i,k is agent i's Shapley value in episode k over coalitions that are played on the episode's own seeds, the others
acting by `algorithm.baseline` (see coalition_play). One scalar for all decisions of the agent in the episode, with the
population std of each agent. An agent whose credit does not differ between episodes gets zeros; where that holds for
all of them the round is skipped.

Where no agent earns anything without the others, v({i}) = v(empty) = 0 for two agents, phi_i = v(N) / 2: every agent's
advantage is then exactly the shared one, at several times its cost.
"""

from __future__ import annotations

import numpy as np

from potluck_trainer.algorithms.base import Advantages, Floats, RoundReturns, Skip, asks_for_coalitions, is_flat
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import NonFiniteError


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
    values = {
        episode.member: {
            agent: np.full(len(steps), standard[agent][k] if agent in standard else 0.0)
            for agent, steps in episode.decision_steps.items()
        }
        for k, episode in enumerate(episodes)
    }
    return Advantages(values, None, mean, scale)


def standard_credits(returns: RoundReturns, std_floor: float) -> tuple[dict[str, Floats], float]:
    """Agent -> its standardised credit by episode, agents whose credit does not differ left out; and the largest std.

    Raises NonFiniteError where a credit is missing or no number.
    """
    episodes = returns.episodes
    found: dict[str, Floats] = {}
    largest = 0.0
    for agent in episodes[0].decision_steps:
        credit_K = np.array([episode.credits.get(agent, np.nan) for episode in episodes])
        if not np.isfinite(credit_K).all():
            bad = episodes[int(np.flatnonzero(~np.isfinite(credit_K))[0])].member
            raise NonFiniteError(f"{agent} has no finite credit in episode {bad}; look into the game's reward")
        std = float(credit_K.std())
        largest = max(largest, std)
        scale = np.array([max(abs(episode.team_return) for episode in episodes)])
        if not is_flat(std, np.concatenate([credit_K, scale]), std_floor):
            found[agent] = (credit_K - credit_K.mean()) / std
    return found, largest
