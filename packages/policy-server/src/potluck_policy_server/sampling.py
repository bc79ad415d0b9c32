"""Sampling from an exact menu distribution with a uniform number that depends on the decision's seed alone.

The number is the splitmix64 hash of the seed, its upper 53 bits read as a fraction: no state, no order of calls, no
batch can change it.
"""

import numpy as np

from potluck_policy_server.backbones.base import Floats

_MASK = (1 << 64) - 1


def uniform(seed: int) -> float:
    """A number in [0, 1) for a 64-bit seed."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def choose(probabilities: Floats, seed: int, greedy: bool) -> int:
    """The index of the chosen item: the most probable (first among equals) or the one at the seed's quantile."""
    if greedy:
        return int(np.argmax(probabilities))
    cumulative = np.cumsum(probabilities)
    index = int(np.searchsorted(cumulative, uniform(seed) * cumulative[-1], side="right"))
    # Rounding must not select an item of probability zero behind the last possible one.
    return min(index, int(np.flatnonzero(probabilities)[-1]))
