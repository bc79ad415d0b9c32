"""`potluck-audit gate`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from potluck_audit.commands.console import say, tell

if TYPE_CHECKING:
    from potluck_audit.verdict.verdict import CheckpointVerdict, Decoupling

DECOUPLED = 4
UNDECIDABLE = 5
BELOW = 6


@dataclass(frozen=True)
class GateCommand:
    """Tell whether a run's reward rose while its cooperation fell.

    Plays checkpoints of the run, the whole team and its coalitions, on seeds of their own, and prints a verdict for
    each (cooperative, parallel, carried by one, free-riding, undecided) and one for the run. What was played is kept: a
    gate that broke off goes on where it was, and needs no server once all was played. Writes RUN/audit/verdict.json.
    Exit status: 0 where there is no sign of it, 4 where reward rose while cooperation fell, 5 where that cannot be
    told, 6 where the last verdict is not the required one, 1 for an error.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    envs: str = ""
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    checkpoints: int = 5
    """How many, spread evenly from the first to the last."""
    rounds: tuple[int, ...] = ()
    """Those after these rounds instead."""
    episodes: int = 12
    """Of each line-up."""
    baseline: str = "noop"
    """How agents outside a coalition act: noop, uniform, greedy, frozen, scripted, a digest or plugin:<name>."""
    confidence: float = 0.95
    """Of intervals; tests are made at one minus it."""
    margin: float = 0.5
    """An agent that is worth less than this part of an equal share is a passenger."""
    require: Literal["", "cooperative", "parallel"] = ""
    """The last checkpoint must be at least this."""

    def run(self) -> int:
        from potluck_audit.verdict.gate import GateRequest, run_gate

        request = GateRequest(
            run=self.folder,
            envs=tuple(part.strip() for part in self.envs.split(",") if part.strip()),
            policy=self.policy,
            rounds=self.rounds,
            checkpoints=self.checkpoints,
            episodes=self.episodes,
            baseline=self.baseline,
            confidence=self.confidence,
            margin=self.margin,
        )
        found, file = asyncio.run(
            run_gate(request, lambda name, done, total: tell(f"{name} {done}/{total}" if total else name))
        )
        for line in lines(found):
            say(line)
        say(f"verdict {file}")
        return self._status(found)

    def _status(self, found: Decoupling) -> int:
        last = found.checkpoints[-1].verdict.value if found.checkpoints else "undecided"
        if found.outcome == "decoupled":
            return DECOUPLED
        allowed = {"": (), "cooperative": ("cooperative",), "parallel": ("cooperative", "parallel")}[self.require]
        if allowed and last not in allowed:
            tell(f"potluck-audit: the last checkpoint is {last}, and {self.require} was required")
            return BELOW
        return UNDECIDABLE if found.outcome == "undecidable" else 0


COLUMNS = ("synergy_share", "least_needed", "made_together", "constructive_handoffs", "least_active")


def lines(found: Decoupling) -> list[str]:
    """A table of checkpoints, what the verdicts rest on, and the outcome."""
    head = ("round", "verdict", f"return ({found.unit})", *(name.replace("_", " ") for name in COLUMNS))
    rows = [head, *(_row(c) for c in found.checkpoints)]
    rows += [("", m.key, m.estimate.text(), *[""] * len(COLUMNS)) for m in found.references]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*table, "", *_reasons(found.checkpoints), f"{found.outcome.value}: {found.reason}"]


def _row(one: CheckpointVerdict) -> tuple[str, ...]:
    shown = [one.find("return"), *(one.find(name) for name in COLUMNS)]
    return (str(one.round), one.verdict.value, *(m.estimate.text() if m else "" for m in shown))


def _reasons(checkpoints: Sequence[CheckpointVerdict]) -> list[str]:
    return [f"round {one.round}: {one.verdict.value}, for {one.reason}" for one in checkpoints]
