"""Typed option contracts: what an option author writes down, with a digest over everything that is data.

A contract has four parts. *Instantiation* says which targets exist (no strategy, no state-conditional gating). The
*executor* turns the option into primitives and may fail explicitly, only for reasons of the expansion itself. The
*termination* is the executor's end or the time-out. The *effect predicate* looks at the change of the state around
the last primitive and is true iff the execution did what its name promises. The *read set* bounds what guards see.

`W` is the game's own world type; hooks get it first. Nothing here knows any game.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from potluck_optionlib.game import Instance

W = TypeVar("W")

_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Change:
    """The facts around an execution's last primitive, as the effect predicate sees them."""

    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True)
class Contract(Generic[W]):
    """One option type."""

    name: str
    stem: str
    """Word of the type under the words scheme."""
    reads: tuple[str, ...]
    """Features that guards may look at; see `features`."""
    timeout: int
    """Primitive steps after which an execution ends as "timeout"."""
    solo_only: bool
    """True where the effect has no private part, so that only solo records can tell who caused it."""
    promise: str
    """The effect predicate in words; part of the digest."""
    failures: tuple[str, ...]
    """Explicit failures that the executor may give."""
    instances: Callable[[W, int], Sequence[Instance]]
    """Every target that exists for the agent."""
    explicit: Callable[[W, int, Instance], str | None]
    """The explicit failure that the executor would give now."""
    effect: Callable[[Change], bool]
    """Did the execution do what its name promises?"""

    def data(self) -> dict[str, Any]:
        """What the digest covers: everything that is not code."""
        return {
            "name": self.name,
            "stem": self.stem,
            "reads": list(self.reads),
            "timeout": self.timeout,
            "solo_only": self.solo_only,
            "promise": self.promise,
            "failures": list(self.failures),
        }


def contracts_digest(contracts: Iterable[Contract[Any]]) -> str:
    """sha256 over the contracts as data, in order."""
    return hashlib.sha256(canonical_json([contract.data() for contract in contracts])).hexdigest()


def canonical_json(value: object) -> bytes:
    """The one byte form of a JSON value that digests are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


@lru_cache(maxsize=4096)
def map_order(target: str) -> tuple[tuple[int, ...], str]:
    """Sort key of targets in reading order: "(x,y)" by y, then x; anything else by its numbers and text."""
    return tuple(int(n) for n in reversed(_NUMBER.findall(target))), target
