"""Melting Pot as an engine of episodes: whole frames, exact returns to any moment, and lazy use of a dmlab2d core.

dmlab2d cannot save its state, but the same seed, actions and reseeds lead to the same state. A `Moment` is this log
with the frame that it led to, so that looking at a moment needs no engine; only playing on from it brings a core there,
by playing the log again, or by a fork of one that stands there (see standing.py). A core is taken when it is first
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol, cast

from potluck_envs.errors import EngineCrashed, EngineTimeout, InvalidField
from potluck_envs.meltingpot.frame import Change, Frame, Frames
from potluck_envs.meltingpot.lab import MAX_SEED
from potluck_envs.meltingpot.level import level
from potluck_envs.meltingpot.process import ProcessCore
from potluck_envs.meltingpot.standing import Standing
from potluck_envs.meltingpot.substrates import Substrate, substrate

_standing = Standing()


class Moment(NamedTuple):
    """Where an episode stands: equal moments are equal states of the engine, hidden randomness included."""

    seed: int
    moves: bytes
    """One byte per agent and step: an index into the substrate's actions."""
    reseeds: tuple[tuple[int, int], ...]
    """Steps before which the randomness was replaced, with the seeds."""
    frame: Frame


class CoreLike(Protocol):
    """A core in this process or in one of its own."""

    def start(self, seed: int) -> Change: ...

    def advance(self, actions: bytes) -> Change: ...

    def replay(self, agents: int, begun: int, moves: bytes, reseeds: Sequence[tuple[int, int]]) -> None: ...

    def reseed(self, seed: int) -> None: ...

    def close(self) -> None: ...


class Engine:
    """One episode of a substrate at a time. Not thread-safe.

    horizon: steps after which the engine itself says `done`; None leaves the end to the player. stochastic_ending: the
    substrate's own ending rule instead, by which it may end every 100 steps from the 1000th on. core: `ProcessCore`, or
    `Core` for an engine in this process, which saves a tenth of the time and takes the process along when it fails.
    """

    def __init__(
        self,
        name: str,
        horizon: int | None = None,
        stochastic_ending: bool = False,
        core: Callable[[Substrate, int | None, bool], CoreLike] = ProcessCore,
    ) -> None:
        self.substrate = substrate(name)
        self.level = level(name)
        self._make = core
        self._options = horizon, stochastic_ending
        self._index = {action: number for number, action in enumerate(self.substrate.actions)}
        self._frames = Frames(self.level.width, self.level.height)
        self._core: CoreLike | None = None
        self._at: tuple[int, int, int] | None = None
        """Where the core stands: seed, number of steps, number of reseeds. None where that is not on our log."""
        self._seed = 0
        self._moves = bytearray()
        self._reseeds: list[tuple[int, int]] = []
        self._frame: Frame | None = None

    def begin(self, seed: int) -> None:
        """A new episode; the engine starts it when it is first looked at or played."""
        self._forget_place()
        self._seed, self._frame = seed, None
        self._moves, self._reseeds = bytearray(), []

    def reset(self, seed: int) -> Frame:
        """A new episode and its first frame."""
        self.begin(seed)
        return self.frame

    @property
    def frame(self) -> Frame:
        """The present state."""
        if self._frame is None:
            core = self._taken()
            self._frame = self._frames.begin(core.start(engine_seed(self._seed)))
            self._at = self._seed, 0, 0
            for _, seed in self._reseeds:
                core.reseed(engine_seed(seed))
            self._at = self._here()
        return self._frame

    def step(self, actions: Sequence[str]) -> Frame:
        """Plays one action per agent, by name.

        Raises InvalidField, after the engine's end, too. Raises EngineCrashed or EngineTimeout where the core is lost;
        the episode stands where it stood, and the same step again is tried on a new core.
        """
        moves = self._encoded(actions)
        before = self.frame
        if before.done:
            raise InvalidField("actions", "the engine has ended the episode", "reset it, or go back to a moment")
        try:
            change = self._brought_here().advance(moves)
        except (EngineCrashed, EngineTimeout):
            self.close()
            raise
        self._moves += moves
        self._at = self._here()
        self._frame = self._frames.go_on(before, change)
        return self._frame

    def reseed(self, seed: int) -> None:
        """Replaces the randomness of everything that follows."""
        if self._at is not None and self._at == self._here():
            self._taken().reseed(engine_seed(seed))
            self._reseeds.append((self._steps, seed))
            self._at = self._here()
        else:
            self._reseeds.append((self._steps, seed))

    @property
    def actions_so_far(self) -> tuple[tuple[str, ...], ...]:
        """Names of all actions since the start, step by step."""
        names, agents = self.substrate.actions, self.substrate.agents
        moves = self._moves
        return tuple(tuple(names[m] for m in moves[i : i + agents]) for i in range(0, len(moves), agents))

    def moment(self) -> Moment:
        """The present moment, for `go_to`."""
        return Moment(self._seed, bytes(self._moves), tuple(self._reseeds), self.frame)

    def go_to(self, moment: Moment) -> None:
        """Stands at a moment of any episode of the same substrate and options; it stays good."""
        if not self._leads_to(moment):
            self._forget_place()
        self._seed, self._moves, self._reseeds = moment.seed, bytearray(moment.moves), list(moment.reseeds)
        self._frame = moment.frame

    def close(self) -> None:
        """Gives the core back. The episode can still be gone on with."""
        if self._core is not None:
            self._core.close()
        self._core = self._at = None

    @property
    def _steps(self) -> int:
        return len(self._moves) // self.substrate.agents

    def _here(self) -> tuple[int, int, int]:
        return self._seed, self._steps, len(self._reseeds)

    def _forget_place(self) -> None:
        self._at = None

    def _leads_to(self, moment: Moment) -> bool:
        """Whether the core stands on the way to a moment."""
        if self._at is None:
            return False
        seed, steps, reseeds = self._at
        size = steps * self.substrate.agents
        return (
            seed == moment.seed
            and self._moves[:size] == moment.moves[:size]
            and len(moment.moves) >= size
            and tuple(self._reseeds[:reseeds]) == moment.reseeds[:reseeds]
            and all(step >= steps for step, _ in moment.reseeds[reseeds:])
        )

    def _taken(self) -> CoreLike:
        if self._core is None:
            self._core = self._make(self.substrate, *self._options)
        return self._core

    def _brought_here(self) -> CoreLike:
        """The core, at the place where the log ends."""
        if self._core is None or self._at is None:
            return self._replay(self._brought_from_afar())
        return self._core if self._at == self._here() else self._replay(self._core)

    def _brought_from_afar(self) -> CoreLike:
        """A core after all moves, before the reseeds that came after them: futures with other reseeds share it."""
        reseeds = tuple((step, seed) for step, seed in self._reseeds if step < self._steps)
        place = self._seed, self._steps, len(reseeds)
        moment = (self.substrate.name, *self._options, self._seed, bytes(self._moves), reseeds)
        if copy := self._forked(moment):
            self.close()
            self._core, self._at = copy, place
            return copy
        core = self._taken()
        core.start(engine_seed(self._seed))
        self._at = self._seed, 0, 0
        self._replay(core, len(reseeds))
        _standing.arrived(moment, core)
        return core

    def _forked(self, moment: Hashable) -> CoreLike | None:
        try:
            return cast("CoreLike | None", _standing.fork(moment))
        except (EngineCrashed, EngineTimeout):
            _standing.forget(moment)
            return None

    def _replay(self, core: CoreLike, reseeds: int | None = None) -> CoreLike:
        """Plays the rest of the log, up to a number of reseeds."""
        assert self._at is not None
        _, steps, done = self._at
        moves = bytes(self._moves[steps * self.substrate.agents :])
        due = [(step, engine_seed(seed)) for step, seed in self._reseeds[done:reseeds]]
        if moves or due:
            core.replay(self.substrate.agents, steps, moves, due)
        self._at = self._seed, self._steps, done + len(due)
        return core

    def _encoded(self, actions: Sequence[str]) -> bytes:
        if len(actions) != self.substrate.agents:
            cure = f"send one for each of the {self.substrate.agents} agents of {self.substrate.name}"
            raise InvalidField("actions", f"{len(actions)} came", cure)
        try:
            return bytes([self._index[action] for action in actions])
        except KeyError as error:
            known = ", ".join(self.substrate.actions)
            raise InvalidField("actions", f"there is no action {error.args[0]!r}", f"use one of {known}") from None


def engine_seed(seed: int) -> int:
    """An episode's seed in the engine's range; the seeds that are in it already stay what they are."""
    if 0 <= seed < MAX_SEED:
        return seed
    return int.from_bytes(blake2b(str(seed).encode(), digest_size=8).digest(), "big") % MAX_SEED
