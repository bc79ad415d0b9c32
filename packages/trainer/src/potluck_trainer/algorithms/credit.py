"""Shares of a return: the exact Shapley value over agents, and the two-pool form over one agent's decisions.

    phi_i = sum over S without i of  |S|! (n - |S| - 1)! / n!  [v(S + i) - v(S)],     sum of phi = v(N) - v(empty)

A coalition is a bit mask over the agents' order. The two-pool weights take labels relative to the credit's sign: with
alpha = 1.5 where labels of both signs exist and 1 where none is against it, alpha |l| / sum aligned for aligned labels,
-(alpha - 1) |l| / sum anti-aligned for the others, equal weights where nothing is aligned. They sum to 1 whatever the
labels, which division by the sum of labels does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import factorial

import numpy as np

from potluck_trainer.algorithms.base import Floats

ALPHA = 1.5


def shapley(agents: int, value: Mapping[int, float]) -> Floats:
    """phi of each agent, [n], from the value of every coalition's mask. Raises KeyError where one is missing."""
    weights = [factorial(k) * factorial(agents - k - 1) / factorial(agents) for k in range(agents)]
    phi = np.zeros(agents)
    for mask in range(1 << agents):
        for agent in range(agents):
            if not mask >> agent & 1:
                phi[agent] += weights[mask.bit_count()] * (value[mask | 1 << agent] - value[mask])
    return phi


def two_pool(labels_N: Floats, credit: float, alpha: float = ALPHA) -> Floats:
    """Weights that sum to 1, [N]."""
    own_N = labels_N if credit >= 0 else -labels_N
    aligned, against = own_N.clip(min=0).sum(), -own_N.clip(max=0).sum()
    if aligned <= 0:
        return np.full(len(own_N), 1 / len(own_N))
    if against <= 0:
        equal: Floats = own_N / aligned
        return equal
    weights_N: Floats = np.where(own_N > 0, alpha * own_N / aligned, (alpha - 1) * own_N / against)
    return weights_N
