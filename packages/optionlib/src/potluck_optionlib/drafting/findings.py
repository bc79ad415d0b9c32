"""What is wrong with one version of a drafted library, in the words that go back to the model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Stage(StrEnum):
    """Where a fault showed, in the order in which a version is judged."""

    REPLY = "reply"
    SCREEN = "screen"
    LOAD = "load"
    VALIDATE = "validate"
    PLAY = "play"
    SUSPECT = "suspect"


class Finding(BaseModel):
    """One fault or suspicion."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage
    kind: str
    """Short name, e.g. "truncated", "import", "cpu_time", "effect_without_change"."""
    option: str = ""
    """The option type, "" where the fault is the whole module's."""
    evidence: str
    """What was seen, with line numbers or counts, and what cures it."""
    counts: Mapping[str, int] = {}

    def line(self) -> str:
        """As told to the model and to people."""
        where = f" {self.option}:" if self.option else ""
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"[{self.stage}/{self.kind}]{where} {self.evidence}" + (f" ({counts})" if counts else "")
