"""A run's verdict as it lies in its folder: `RUN/audit/verdict.json`, undefined as null."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from potluck_audit.errors import CannotWrite, CorruptRecords, NewerSchema
from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.results import write_file
from potluck_audit.verdict.verdict import CheckpointVerdict, Comparison, Decoupling, Outcome, Verdict

VERDICT_VERSION = 1


def verdict_file(run: Path) -> Path:
    return run / "audit" / "verdict.json"


def write_verdict(found: Decoupling, run: Path) -> Path:
    """Raises CannotWrite."""
    text = json.dumps(to_json(found), allow_nan=False, ensure_ascii=False, indent=1)
    try:
        return write_file(verdict_file(run), text + "\n")
    except OSError as error:
        raise CannotWrite(run, error.strerror or str(error)) from error


def load_verdict(run: Path) -> Decoupling | None:
    """What `potluck-audit gate` found last, or None. Raises CorruptRecords, NewerSchema."""
    file = verdict_file(run)
    if not file.exists():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema_version"] > VERDICT_VERSION:
            raise NewerSchema(file, data["schema_version"], VERDICT_VERSION)
        return _found(data)
    except (ValueError, OSError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptRecords(file, type(broken).__name__) from broken


def to_json(found: Decoupling) -> dict[str, Any]:
    return {
        "schema_version": VERDICT_VERSION,
        "outcome": found.outcome.value,
        "reason": found.reason,
        "level": found.level,
        "unit": found.unit,
        "checkpoints": [
            {
                "round": c.round,
                "verdict": c.verdict.value,
                "reason": c.reason,
                "episodes": c.episodes,
                "baseline": c.baseline,
                "metrics": [_row(m) for m in c.metrics],
            }
            for c in found.checkpoints
        ],
        "comparisons": [
            {
                "round": c.round,
                "measure": c.measure,
                "reward": _row(c.reward),
                "change": _row(c.change),
                "p_value": c.p_value,
                "p_holm": c.p_holm,
            }
            for c in found.comparisons
        ],
        "references": [_row(m) for m in found.references],
    }


def _row(metric: Metric) -> dict[str, Any]:
    named = {"name": metric.name, "set": metric.set, "agent": metric.agent, "key": metric.key}
    return named | metric.estimate._asdict() | {"unit": metric.unit}


def _found(data: Mapping[str, Any]) -> Decoupling:
    return Decoupling(
        outcome=Outcome(data["outcome"]),
        reason=data["reason"],
        checkpoints=[
            CheckpointVerdict(
                c["round"],
                Verdict(c["verdict"]),
                c["reason"],
                [_metric(m) for m in c["metrics"]],
                c["episodes"],
                c["baseline"],
            )
            for c in data["checkpoints"]
        ],
        comparisons=[
            Comparison(c["round"], c["measure"], _metric(c["reward"]), _metric(c["change"]), c["p_value"], c["p_holm"])
            for c in data["comparisons"]
        ],
        references=[_metric(m) for m in data["references"]],
        level=data["level"],
        unit=data["unit"],
    )


def _metric(row: Mapping[str, Any]) -> Metric:
    estimate = Estimate(row["value"], row["low"], row["high"], row["episodes"])
    return Metric(row["name"], row["set"], estimate, row["agent"], row["key"], row["unit"])
