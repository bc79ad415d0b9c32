"""The shape of every figure: a named number of one episode set, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from potluck_audit.intervals import Estimate
from potluck_audit.records import Episode


@dataclass(frozen=True)
class EpisodeSet:
    """Episodes that are audited together."""

    name: str
    episodes: Sequence[Episode]
    unit: str = "reward"
    """What the team return counts."""

    @property
    def agents(self) -> tuple[str, ...]:
        """In seat order."""
        return self.episodes[0].agents if self.episodes else ()

    @property
    def game(self) -> str:
        return self.episodes[0].game if self.episodes else ""


@dataclass(frozen=True)
class Metric:
    """See potluck.audit.v1.Metric."""

    name: str
    set: str
    estimate: Estimate
    agent: str = ""
    key: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Check:
    """Something that must hold if records and metrics are right."""

    name: str
    set: str
    passed: bool | None
    """None where nothing could be checked."""
    detail: str
