"""How a first decisive error is looked for. Everything here is reported with the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from potluck_audit.errors import InvalidRequest

OWN = "own"
"""The continuation policy under which every agent keeps the policy that it was recorded with."""

Scan = Literal["auto", "binary", "linear"]


@dataclass(frozen=True)
class LocateSettings:
    """Success is a team return of at least `threshold`; a prefix is broken where P(success | prefix) < `tau`."""

    threshold: float
    tau: float = 0.5
    continuation: str = OWN
    """Who plays on: `own`, or a policy for all seats (`scripted`, `uniform`, `frozen`, an adapter digest)."""
    continuations: int = 16
    """Plays of a prefix at first; all prefixes share their noise."""
    most: int = 64
    """Plays of a prefix next to the error at most."""
    checkpoints: int = 7
    """Prefixes at which monotonicity is checked before a binary search, ends included."""
    scan: Scan = "auto"
    """`auto`: binary where the check found the success probability monotone, else linear."""
    certainty: float = 0.75
    """Probability of being right below which the answer is `undecided`."""
    budget: int = 20_000
    """Branches that may be played."""
    confidence: float = 0.95
    """Of the intervals."""

    def __post_init__(self) -> None:
        for name in ("tau", "certainty", "confidence"):
            if not 0 < getattr(self, name) < 1:
                raise InvalidRequest(
                    name, f"{name} {getattr(self, name)} is not between 0 and 1", "give one such as 0.5"
                )
        for name, least in (("continuations", 2), ("checkpoints", 3), ("budget", 1)):
            if (value := getattr(self, name)) < least:
                raise InvalidRequest(name, f"{name} {value} is below {least}", f"give at least {least}")
        if self.most < self.continuations:
            raise InvalidRequest("most", f"most {self.most} is below the {self.continuations} first plays", "raise it")
        if self.scan not in ("auto", "binary", "linear"):
            raise InvalidRequest("scan", f"there is no such scan: {self.scan!r}", "use auto, binary or linear")
