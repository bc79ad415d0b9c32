"""The table of one folder: baselines and judges side by side, group by group, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from potluck_audit.foreign.baselines import baselines
from potluck_audit.foreign.judges import Judgement, cost
from potluck_audit.foreign.log import FailureLog
from potluck_audit.foreign.predictions import Prediction
from potluck_audit.foreign.score import TOLERANCES, Row, mean_steps, score
from potluck_audit.intervals import Estimate

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Group:
    """The logs of one subfolder and their rows."""

    name: str
    logs: Sequence[FailureLog]
    rows: list[Row] = field(default_factory=list)

    @property
    def odd_labels(self) -> list[str]:
        """Logs whose label names another agent than the speaker at its step."""
        return [log.name for log in self.logs if not log.label_agrees]


@dataclass(frozen=True)
class Comparison:
    """Everything that one command found."""

    folder: str
    confidence: float
    tolerances: Sequence[int]
    groups: Sequence[Group]
    judgements: Mapping[str, Sequence[Judgement]]
    """By method."""


def compare(
    folder: str,
    logs: Sequence[FailureLog],
    judgements: Mapping[str, Sequence[Judgement]],
    predictions: Mapping[str, Mapping[str, Prediction]],
    *,
    confidence: float = 0.95,
    tolerances: Sequence[int] = TOLERANCES,
) -> Comparison:
    """Groups are scored apart: their logs come from different systems, and baselines must not mix them."""
    options: dict[str, Any] = {"confidence": confidence, "tolerances": tolerances}
    groups = []
    for name in dict.fromkeys(log.group for log in logs):
        group = Group(name, [log for log in logs if log.group == name])
        names = {log.name for log in group.logs}
        group.rows.extend(baselines(group.logs, **options))
        for method, found in judgements.items():
            own = [j for j in found if j.log in names]
            answers = {j.log: j.answer for j in own}
            group.rows.append(score(method, group.logs, answers, cost=cost(own), **options))
        for method, given in predictions.items():
            own_answers = {log: answer for log, answer in given.items() if log in names}
            group.rows.append(score(method, group.logs, own_answers, **options))
        groups.append(group)
    return Comparison(folder, confidence, tolerances, groups, judgements)


def lines(found: Comparison) -> list[str]:
    """For a terminal."""
    said: list[str] = []
    for group in found.groups:
        length = mean_steps(group.logs)
        said.append(f"{group.name or found.folder}: {len(group.logs)} logs, {length or 0:.1f} steps on average")
        if odd := group.odd_labels:
            said.append(f"  {len(odd)} labels name another agent than the speaker at their step: {', '.join(odd[:5])}")
        ks = [k for k in found.tolerances if k in (1, 3, 5)] or list(found.tolerances)
        header = ["method", "agent %", "step %", *(f"within {k}" for k in ks), "unparsable", "calls", "tokens in/out"]
        said += [*_aligned([header, *(_cells(row, ks) for row in group.rows)]), ""]
    said.append(f"Brackets: {100 * found.confidence:g} % (exact binomial; for the random row the range of guessers).")
    return said


def _cells(row: Row, ks: Sequence[int]) -> list[str]:
    shares = [_percent(e) for e in (row.agent, row.step, *(row.within[k] for k in ks))]
    if row.expected:
        return [row.method, *shares, "-", "-", "-"]
    tokens = (row.cost.get("prompt_tokens"), row.cost.get("output_tokens"))
    told = "/".join("unknown" if t is None else str(t) for t in tokens)
    unread = f"{row.unparsable_agents}/{row.unparsable_steps}"
    return [row.method, *shares, unread, str(row.cost.get("calls", "-")), told if row.cost else "-"]


def _percent(estimate: Estimate) -> str:
    value, low, high, _ = estimate
    if value is None or low is None or high is None:
        return "undefined"
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def to_json(found: Comparison) -> dict[str, Any]:
    """Undefined is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "format": "who-and-when",
        "confidence": found.confidence,
        "groups": [
            {
                "name": group.name,
                "logs": [log.name for log in group.logs],
                "odd_labels": group.odd_labels,
                "rows": [_row(row) for row in group.rows],
            }
            for group in found.groups
        ],
        "judgements": {method: [asdict(j) for j in own] for method, own in found.judgements.items()},
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "method": row.method,
        "note": row.note,
        "logs": row.logs,
        "expected": row.expected,
        "agent": row.agent._asdict(),
        "step": row.step._asdict(),
        "step_within": {str(k): e._asdict() for k, e in row.within.items()},
        "unparsable": {"agent": row.unparsable_agents, "step": row.unparsable_steps},
        "cost": dict(row.cost),
    }
