"""Prints the digest of an episode of each substrate: equal on every supported Python.

python golden.py
"""

import hashlib
import random

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import SUBSTRATES

STEPS = 300


def digest(name: str) -> str:
    """Over all that the engine tells of an episode with random primitives."""
    known, rng = SUBSTRATES[name], random.Random(5)
    core = Core(known, None, False)
    found = hashlib.sha256(repr(tuple(core.start(11))).encode())
    for _ in range(STEPS):
        moves = bytes(int(rng.random() * len(known.actions)) for _ in range(known.agents))
        found.update(repr(tuple(core.advance(moves))).encode())
    return found.hexdigest()


if __name__ == "__main__":
    for name in SUBSTRATES:
        print(name, digest(name))
