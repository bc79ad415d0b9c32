"""Where randomness outside the engine comes from: one generator per (source, agent, decision), so that nothing drifts.

The source is the episode's seed, or the reseed of a fork. Menus and baselines draw from generators of their own;
asking one agent more often moves no other agent's draws.
"""

from __future__ import annotations

import hashlib
import random

SEEDS = 1 << 64
_PASSING = random.Random()


def from_seed(seed: int) -> str:
    """The source of an episode's beginning."""
    return f"seed/{seed}"


def from_reseed(number: int) -> str:
    """The source after a fork with new randomness; never equal to a seed's."""
    return f"reseed/{number}"


def generator(purpose: str, source: str, agent: int, decision: int) -> random.Random:
    """The generator of one decision."""
    return random.Random(_number(purpose, source, agent, decision))


def passing(purpose: str, source: str, agent: int, decision: int) -> random.Random:
    """`generator` at half the cost, for what is drawn at once: good until the next call."""
    _PASSING.seed(_number(purpose, source, agent, decision))
    return _PASSING


def _number(purpose: str, source: str, agent: int, decision: int) -> int:
    text = f"{purpose}/{source}/{agent}/{decision}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
