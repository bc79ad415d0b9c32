"""Cores that are not in use are kept for the next episode: building one takes longer than starting it again."""

from __future__ import annotations

from collections.abc import Sequence

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import Substrate

KEPT = 4
"""Idle cores kept of each kind."""

_idle: dict[tuple[str, int | None, bool], list[Core]] = {}


class Lease:
    """A core in this process that goes back to the others when it is closed."""

    def __init__(self, key: tuple[str, int | None, bool], core: Core) -> None:
        self._key, self._core = key, core
        self.start, self.advance, self.reseed = core.start, core.advance, core.reseed
        self.observe = core.observe

    def replay(self, agents: int, begun: int, moves: bytes, reseeds: Sequence[tuple[int, int]]) -> None:
        """As Core's."""
        self._core.replay(agents, begun, moves, reseeds)

    def close(self) -> None:
        """Gives the core back."""
        idle = _idle.setdefault(self._key, [])
        if len(idle) < KEPT:
            idle.append(self._core)
        else:
            self._core.close()


def lease(substrate: Substrate, horizon: int | None, stochastic_ending: bool) -> Lease:
    """An idle core, or a new one."""
    key = (substrate.name, horizon, stochastic_ending)
    idle = _idle.get(key)
    return Lease(key, idle.pop() if idle else Core(substrate, horizon, stochastic_ending))
