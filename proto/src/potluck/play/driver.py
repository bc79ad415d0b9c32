"""Plays episodes in lockstep waves (signature only for now)."""

from collections.abc import Sequence

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import EpisodeResult, EpisodeSpec, OnWave, PlayOptions


async def play(
    specs: Sequence[EpisodeSpec],
    envs: EnvPool,
    policy: PolicyClient | None,
    options: PlayOptions | None = None,
    on_wave: OnWave | None = None,
) -> list[EpisodeResult]:
    """Plays all episodes to their end; results are in the order of the specs."""
    raise NotImplementedError
