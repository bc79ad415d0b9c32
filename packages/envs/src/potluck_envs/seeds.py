"""Where randomness outside the engine comes from: one generator per (source, agent, decision), so that nothing drifts.

The source is the episode's seed, or the reseed of a fork. Menus and baselines draw from generators of their own;
asking one agent more often moves no other agent's draws.
"""

from __future__ import annotations

import hashlib
import random

SEEDS = 1 << 64


def from_seed(seed: int) -> str:
    """The source of an episode's beginning."""
    return f"seed/{seed}"


def from_reseed(number: int) -> str:
    """The source after a fork with new randomness; never equal to a seed's."""
    return f"reseed/{number}"


def generator(purpose: str, source: str, agent: int, decision: int) -> random.Random:
    """The generator of one decision."""
    text = f"{purpose}/{source}/{agent}/{decision}".encode()
    return random.Random(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))
