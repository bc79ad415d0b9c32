"""One running dmlab2d environment: plays primitives and tells what changed.

A Lua or C++ error inside the engine aborts the process, so nothing here can raise one. `engine.py` puts whole frames
together, `process.py` lets a core live in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.frame import APPLE, BEAMS, CLEAN, DIRT, EAT, EMPTY, ZAP, Change
from potluck_envs.meltingpot.lab import build
from potluck_envs.meltingpot.substrates import Substrate

_RENDER_ORDER = ("logic", "alternateLogic", "background", "lowerPhysical", "upperPhysical", "overlay", "superOverlay")
_BEAM_SPRITES = ("BeamZap", "BeamClean")
_PLAYER_DEEDS = {"potluck_eat": EAT, "potluck_clean": CLEAN}
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
        self._scan.forget()
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
    """Reads the engine's observations and compares them with the ones before."""

    def __init__(self, substrate: Substrate, raw: Any) -> None:
        self._raw = raw
        names = raw.read_property("spriteNames").split(",")
        self._players = substrate.agents
        self._things = _RENDER_ORDER.index(substrate.thing_layer)
        self._avatars = _RENDER_ORDER.index(substrate.avatar_layer)
        self._kinds = np.zeros(len(names) + 1, np.int8)
        self._owners = np.full(len(names) + 1, -1, np.int16)
        for index, name in enumerate(names):
            stem, _, side = name.partition(".")
            if stem in ("Apple", "Dirt"):
                self._kinds[index] = APPLE if stem == "Apple" else DIRT
            elif stem.startswith("Avatar") and stem[6:].isdigit() and side:
                self._owners[index] = 4 * (int(stem[6:]) - 1) + "NESW".index(side)
        self._beams = {i: _BEAM_SPRITES.index(n.partition(".")[0]) for i, n in enumerate(names) if _is_beam(n)}
        self._before: NDArray[np.int8] | None = None

    def forget(self) -> None:
        """The next change is told from an empty world."""
        self._before = None

    def change(self, fired: bool, done: bool) -> Change:
        """What is different from the last call, with the events since."""
        layers = np.asarray(self._raw.observation("WORLD.LAYER"))
        status = np.asarray(self._raw.observation("WORLD.STATUS")).reshape(self._players, 4).tolist()
        return Change(
            self._poses(layers),
            tuple([row[0] for row in status]),
            tuple([int(row[2]) for row in status]),
            tuple([int(row[3]) for row in status]),
            self._changed_things(layers),
            self._deeds(layers.shape[1]),
            self._rays(layers) if fired else (),
            done,
        )

    def _poses(self, layers: NDArray[np.int32]) -> tuple[int, ...]:
        plane = layers[:, :, self._avatars].ravel()
        owners = self._owners[plane]
        poses = [-1] * self._players
        for cell in np.flatnonzero(owners >= 0).tolist():
            owner = int(owners[cell])
            poses[owner >> 2] = cell << 2 | owner & 3
        return tuple(poses)

    def _changed_things(self, layers: NDArray[np.int32]) -> tuple[int, ...]:
        plane = self._kinds[layers[:, :, self._things].ravel()]
        before = self._before if self._before is not None else np.full_like(plane, EMPTY)
        self._before = plane
        changed = np.flatnonzero(plane != before)
        if not len(changed):
            return ()
        return tuple(np.stack((changed, before[changed], plane[changed]), axis=1).ravel().tolist())

    def _deeds(self, width: int) -> tuple[int, ...]:
        deeds: list[int] = []
        for name, values in self._raw.events():
            if name == "zap":
                told = _told(values)
                deeds += (ZAP, told[b"source"] - 1, told[b"target"] - 1)
            elif name in _PLAYER_DEEDS:
                told = _told(values)
                deeds += (_PLAYER_DEEDS[name], told[b"player_index"] - 1, told[b"y"] * width + told[b"x"])
        return tuple(deeds)

    def _rays(self, layers: NDArray[np.int32]) -> tuple[int, ...]:
        width = layers.shape[1]
        found: list[int] = []
        for y, x, layer in np.argwhere(layers[:, :, len(_RENDER_ORDER) :]).tolist():
            kind = self._beams.get(int(layers[y, x, len(_RENDER_ORDER) + layer]))
            if kind is not None:
                found += (kind, y * width + x)
        return tuple(found)


def _told(values: Sequence[Any]) -> dict[bytes, int]:
    """An event's whole numbers by name: it comes as "dict", name, number, name, number ..."""
    return {key: int(value) for key, value in zip(values[1::2], values[2::2], strict=True)}


def _is_beam(sprite: str) -> bool:
    return sprite.partition(".")[0] in _BEAM_SPRITES


def _joint_actions(substrate: Substrate, raw: Any) -> Any:
    """From a joint action to the engine's vector, by name: the engine lists actions in an order of its own."""
    module = stack.config(substrate.name)
    by_name = {name: value for name, value in vars(module).items() if name in substrate.actions}
    slots = [(int(player) - 1, key) for player, key in (n.split(".", 1) for n in raw.action_discrete_names())]
    keys = sorted({key for _, key in slots})
    table = np.array([[by_name[name][key] for key in keys] for name in substrate.actions], np.int32)
    order = np.array([player * len(keys) + keys.index(key) for player, key in slots])

    def joint(actions: bytes) -> NDArray[np.int32]:
        vector: NDArray[np.int32] = table[np.frombuffer(actions, np.uint8)].ravel()[order]
        return vector

    return joint


assert len(BEAMS) == len(_BEAM_SPRITES)
