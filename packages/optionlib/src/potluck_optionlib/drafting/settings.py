"""The settings of a draft: what is asked of whom, how long a drafted module may run, how much is played."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Provider(StrEnum):
    """The protocol that the endpoint speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Endpoint(_Frozen):
    """Where the model is. The key is never part of it: it is read from the environment when a call is made."""

    provider: Provider
    model: str = Field(min_length=1)
    base_url: str | None = None
    """None: the provider's own address (or what its client library reads from the environment)."""
    max_tokens: int = Field(default=32_000, ge=1)
    """The longest reply, in tokens."""
    temperature: float | None = Field(default=None, ge=0)
    """None: not sent; some models accept no temperature."""
    timeout_s: float = Field(default=900.0, gt=0)
    """Seconds for one reply."""
    attempts: int = Field(default=5, ge=1)
    """Calls for one reply at most: 429 and 5xx are tried again, nothing else is."""
    longest_wait_s: float = Field(default=300.0, ge=0)
    """The longest pause between attempts; an endpoint that asks for more is an error."""


class Limits(_Frozen):
    """What the child process that runs a drafted module may use."""

    inspect_s: float = Field(default=60.0, gt=0)
    """CPU seconds to load the module, build the game and validate the contracts."""
    play_s: float = Field(default=3600.0, gt=0)
    """CPU seconds for the burn-in and what is mined from it."""
    wall_factor: float = Field(default=3.0, ge=1)
    """Wall-clock seconds per second of CPU."""
    memory_mb: int = Field(default=2048, ge=16)
    """Address space in MiB beyond what the game itself takes before the module is loaded."""
    open_files: int = Field(default=64, ge=16)
    """Open file descriptors at most."""
    reply_mb: int = Field(default=512, ge=1)
    """What the child may send back, in MiB."""


class Play(_Frozen):
    """The burn-in that judges a version."""

    solo_episodes: int = Field(default=100, ge=0)
    team_episodes: int = Field(default=100, ge=0)
    horizon: int = Field(default=400, ge=1)
    seed: int = 0
    min_support: int = Field(default=5, ge=1)


class Settings(_Frozen):
    """One draft."""

    game: str
    endpoint: Endpoint
    repairs: int = Field(default=3, ge=0)
    """Replies asked for after the first one, at most."""
    limits: Limits = Limits()
    play: Play = Play()
