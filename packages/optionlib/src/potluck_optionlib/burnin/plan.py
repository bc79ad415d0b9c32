"""What is to be played: episode counts, the seed, the horizon, and what follows from them for one episode."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields

from potluck_optionlib.burnin.errors import BurninPlanError


@dataclass(frozen=True, slots=True)
class BurninPlan:
    """How much to play. Episodes are numbered: solo ones first, then team ones."""

    solo_episodes: int = 200
    """Episodes with every partner a no-op, seats in turn."""
    team_episodes: int = 200
    """Episodes with all seats playing."""
    seed: int = 0
    """All randomness comes from here."""
    horizon: int = 400
    """Primitive steps an episode."""

    def __post_init__(self) -> None:
        for name in ("solo_episodes", "team_episodes", "seed", "horizon"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise BurninPlanError(f"burn-in plan: {name} must be a whole number, not {value!r}.")
        if self.solo_episodes < 0 or self.team_episodes < 0:
            raise BurninPlanError("burn-in plan: solo_episodes and team_episodes cannot be negative.")
        if self.horizon < 1:
            raise BurninPlanError(f"burn-in plan: horizon must be at least 1 step, not {self.horizon}.")

    @property
    def episodes(self) -> int:
        """Episodes in all."""
        return self.solo_episodes + self.team_episodes

    def solo(self, episode: int) -> bool:
        """Does one seat play alone in this episode?"""
        return episode < self.solo_episodes

    def actor(self, episode: int, agents: int) -> int | None:
        """The seat that plays alone, or None in a team episode."""
        return episode % agents if self.solo(episode) else None

    def episode_seed(self, episode: int) -> int:
        """Seed of the game and of the choices in one episode."""
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{episode}".encode()).digest()[:8], "big")

    def data(self) -> dict[str, int]:
        """The plan as plain values."""
        return asdict(self)

    def differences(self, other: BurninPlan) -> list[str]:
        """Fields in which two plans differ, with both values."""
        names = [field.name for field in fields(self)]
        return [
            f"{n} {getattr(self, n)} != {getattr(other, n)}" for n in names if getattr(self, n) != getattr(other, n)
        ]
