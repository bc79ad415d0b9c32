"""One running dmlab2d environment: plays primitives and tells what changed.

A Lua or C++ error inside the engine aborts the process, so nothing here can raise one. `engine.py` puts whole frames
together, `process.py` lets a core live in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import getitem, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.frame import BEAMS, Change
from potluck_envs.meltingpot.lab import build
from potluck_envs.meltingpot.substrates import Substrate

_LAYERS = 7
"""Render layers below those of the beams: logic, alternateLogic, background, lowerPhysical, upperPhysical, overlay,
superOverlay."""
_BEAM_SPRITES = ("BeamZap", "BeamClean")
_FIRES = ("FIRE_ZAP", "FIRE_CLEAN")


class Core:
    """The engine's side of one environment."""

    def __init__(
        self, substrate: Substrate, horizon: int | None, stochastic_ending: bool, lua: Path | None = None
    ) -> None:
        self._raw = build(substrate, horizon, stochastic_ending, lua)
        self._running = stack.lab2d().RUNNING
        self._joint = _joint_actions(substrate, self._raw)
        self._fires = frozenset(substrate.actions.index(name) for name in _FIRES if name in substrate.actions)
        self._scan = _Scan(substrate, self._raw)

    def start(self, seed: int) -> Change:
        """Begins an episode. seed: 0 to MAX_SEED - 1."""
        self._raw.start(0, seed)
        return self._scan.change(False, False)

    def advance(self, actions: bytes) -> Change:
        """Plays one primitive per agent, each an index into the substrate's actions."""
        status = self._play(actions)
        return self._scan.change(not self._fires.isdisjoint(actions), status != self._running)

    def replay(self, agents: int, begun: int, moves: bytes, reseeds: Sequence[tuple[int, int]]) -> None:
        """Plays many steps of which nothing is told.

        begun: steps played since the start. reseeds: steps before which to reseed, from `begun` on, with the seeds.
        """
        due = list(reversed(reseeds))
        for step in range(begun, begun + len(moves) // agents + 1):
            while due and due[-1][0] == step:
                self.reseed(due.pop()[1])
            at = (step - begun) * agents
            if at < len(moves):
                self._play(moves[at : at + agents])
        self._scan.change(False, False)

    def reseed(self, seed: int) -> None:
        """Seeds the randomness of everything that follows."""
        self._raw.write_property("reseed", str(seed))

    def observe(self, name: str) -> NDArray[Any]:
        """Any observation of the engine's: its own, such as "WORLD.RGB" or "1.RGB", and those of symbolic_state.lua."""
        return np.array(self._raw.observation(name))

    def close(self) -> None:
        """Frees the engine; the core is of no use after that."""
        del self._raw, self._scan

    def _play(self, actions: bytes) -> Any:
        self._raw.act_discrete(self._joint(actions))
        status, _ = self._raw.advance()
        return status


class _Scan:
    """Reads what the engine tells."""

    def __init__(self, substrate: Substrate, raw: Any) -> None:
        self._raw = raw
        self._agents = substrate.agents
        names = raw.read_property("spriteNames").split(",")
        stems = [name.partition(".")[0] for name in names]
        self._beams = {i: _BEAM_SPRITES.index(stem) for i, stem in enumerate(stems) if stem in _BEAM_SPRITES}

    def change(self, fired: bool, done: bool) -> Change:
        """What is new since the last call, with beams where some may have been fired."""
        told, n = np.asarray(self._raw.observation("WORLD.CHANGE")).tolist(), self._agents
        whole = list(map(int, told[n:]))
        return Change(
            tuple(whole[2 * n : 3 * n]),
            tuple(told[:n]),
            tuple(whole[:n]),
            tuple(whole[n : 2 * n]),
            tuple(whole[3 * n :]),
            self._rays() if fired else (),
            done,
        )

    def _rays(self) -> tuple[int, ...]:
        """Beams lie in layers of their own, above all others."""
        layers = np.asarray(self._raw.observation("WORLD.LAYER"))[:, :, _LAYERS:]
        sprites, found = layers.ravel(), list[int]()
        places = np.flatnonzero(sprites)
        for place, sprite in zip(places.tolist(), sprites[places].tolist(), strict=True):
            kind = self._beams.get(sprite)
            if kind is not None:
                found += (kind, place // layers.shape[2])
        return tuple(found)


def _joint_actions(substrate: Substrate, raw: Any) -> Any:
    """From a joint action to the engine's vector, by name: the engine lists actions in an order of its own."""
    module = stack.config(substrate.name)
    by_name = {name: value for name, value in vars(module).items() if name in substrate.actions}
    slots = [(int(player) - 1, key) for player, key in (n.split(".", 1) for n in raw.action_discrete_names())]
    # A player's actions follow one another, so that a vector is one block of bytes per player.
    blocks = [(player, [key for _, key in block]) for player, block in groupby(slots, key=itemgetter(0))]
    of_players = itemgetter(*[player for player, _ in blocks])
    parts = [
        [np.array([by_name[name][key] for key in keys], np.int32).tobytes() for name in substrate.actions]
        for _, keys in blocks
    ]

    def joint(actions: bytes) -> NDArray[np.int32]:
        return np.frombuffer(b"".join(map(getitem, parts, of_players(actions))), np.int32)

    return joint


assert len(BEAMS) == len(_BEAM_SPRITES)
