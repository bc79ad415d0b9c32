"""What can be wrong with a contract, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """The rules; a fault names the one that is broken."""

    NAME = "name"
    STEM = "stem"
    READS = "reads"
    PARTNER_FEATURE = "partner_feature"
    """A read set names a feature of a partner, or one that follows a partner whatever its name: it passes too quickly
    to guard on."""
    UNKNOWN_FEATURE = "unknown_feature"
    """A read set names a feature that the game does not tell."""
    TIMEOUT = "timeout"
    PROMISE = "promise"
    FAILURES = "failures"
    UNDECLARED_FAILURE = "undeclared_failure"
    """The executor fails for a reason that the contract does not list."""
    WAIT = "wait"
    DIGEST = "digest"
    INSTANCE = "instance"
    """Instances of another type, or the same one twice."""
    TOO_MANY = "too_many"
    """More targets, or more option types, than any menu could hold."""
    NEAREST_TARGET = "nearest_target"
    """Only some of several targets are offered, depending on where the agent stands."""
    LEFT_OUT = "left_out"
    """The option works at a target that is never offered."""
    GATED = "gated"
    """Instances depend on what the agent holds, or on a partner: a judgement that belongs to the guards."""
    ABSOLUTE_EFFECT = "absolute_effect"
    """The effect holds around a step that changed nothing."""
    SHARED_EFFECT = "shared_effect"
    """The effect holds although nothing of the actor's own changed, or needs no such change, and the option is not
    `solo_only`."""
    NEVER_ENDS = "never_ends"
    """Executions go on to the end of the episode."""
    RAISES = "raises"


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule."""

    rule: Rule
    option: str
    """Empty where it is not one option's fault."""
    field: str
    """The contract's field, or the method of the game."""
    seen: str
    cure: str

    @property
    def text(self) -> str:
        """In one line."""
        where = f"{self.option}.{self.field}" if self.option else self.field
        return f"{where}: {self.seen}. {self.cure}"
