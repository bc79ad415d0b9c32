"""The trajectory digest: one sha256 over everything that makes a trajectory what it is, in the order it happened.

Covered: game, library, seed and interface; at each boundary the menus on offer (options and targets in letter order)
and the answers; at each step the primitives, the rewards and the engine's canonical state. Not covered: horizon,
baselines and reseeds, so that a fork which repeats the original's choices under the same randomness has its digest.
Every part carries its length or ends in a separator that cannot occur in it: no two trajectories share their bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable

from potluck_optionlib.game import Step
from potluck_optionlib.menus import Menu


class TrajectoryDigest:
    """A running digest."""

    __slots__ = ("_hash",)

    def __init__(self, game: str, library: str, seed: int, interface: str) -> None:
        header = {"game": game, "library": library, "seed": seed, "interface": interface}
        self._hash = hashlib.sha256(json.dumps(header, sort_keys=True).encode())

    def boundary(self, answers: Iterable[tuple[Menu, str]]) -> None:
        """The menus of a boundary with their answers, in seat order."""
        for menu, answer in answers:
            self._part(b"M", "\n".join([f"{i.option} {i.target}" for i in menu.instances]).encode())
            self._part(b"C", f"{menu.agent} {answer}".encode())

    def step(self, step: Step, state: bytes) -> None:
        """One primitive step and the state it led to."""
        primitives = ",".join([agent.primitive for agent in step.agents]).encode()
        rewards = struct.pack(f"<{len(step.agent_rewards)}d", *step.agent_rewards)
        body = b"%s\0%s" % (primitives, rewards)
        self._hash.update(b"S%d:%sE%d:%s" % (len(body), body, len(state), state))

    def _part(self, kind: bytes, body: bytes) -> None:
        self._hash.update(b"%s%d:%s" % (kind, len(body), body))

    def copy(self) -> TrajectoryDigest:
        """An independent digest that goes on from here."""
        other = object.__new__(TrajectoryDigest)
        other._hash = self._hash.copy()
        return other

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._hash.hexdigest()
