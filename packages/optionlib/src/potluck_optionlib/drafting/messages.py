"""What parent and child say to each other: one request on standard input, then events, one JSON object a line."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from potluck_optionlib.drafting.findings import Finding
from potluck_optionlib.drafting.settings import Limits, Play


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(StrEnum):
    """What the child shall do with the module."""

    INSPECT = "inspect"
    """Load it, build the game, validate the contracts, play a little."""
    PLAY = "play"
    """Load it, burn in, mine, examine."""


class Request(_Frozen):
    """The parent's only message."""

    task: Task
    game: str
    source: str
    limits: Limits
    seconds: float
    play: Play


class Event(_Frozen):
    """One line of the child."""

    event: str
    """"ready" (the game is made, the limits hold), "phase", "progress", "breach", "failed" or "result"."""
    name: str = ""
    text: str = ""
    done: int = 0
    total: int = 0
    verdict: Verdict | None = None


class OutcomeRow(_Frozen):
    """How the executions of one option ended."""

    option: str
    outcomes: dict[str, int]


class Verdict(_Frozen):
    """What the child found."""

    findings: tuple[Finding, ...] = ()
    contracts: tuple[dict[str, object], ...] = ()
    """Each contract as data."""
    contracts_digest: str = ""
    sample_digest: str = ""
    """Digest of a short play, to be compared between processes."""
    outcomes: tuple[OutcomeRow, ...] = ()
    guards: str = ""
    """The mined library as JSON."""
    burnin_digest: str = ""
    records: int = 0
    solo_only: tuple[str, ...] = ()
    burnin: str = ""
    """The records as an Arrow stream, base64."""


Event.model_rebuild()
