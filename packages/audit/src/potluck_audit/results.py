"""What an audit found, and the JSON that other programs read.

`<run>/audit/results.json`: `schema_version`, facts, one object per metric (`value`, `low`, `high` are null where they
are undefined), checks, the learning curve, trends over windows of training rounds, visits and notes. Never NaN.
`<run>/audit/metrics.parquet`: the same metrics as a table (`frames.METRICS`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from potluck.audit.v1 import audit_service_pb2 as audit_pb
from potluck_audit import frames
from potluck_audit.metrics.curves import CurvePoint
from potluck_audit.metrics.metric import Check, EpisodeSet, Metric
from potluck_audit.metrics.trends import Trend
from potluck_audit.verdict.verdict import Decoupling

RESULTS_VERSION = 1


@dataclass
class AuditResults:
    """Everything that a report shows."""

    run: str
    facts: dict[str, str]
    confidence: float
    sets: list[EpisodeSet] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    curve: list[CurvePoint] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    visits: dict[str, Mapping[str, Mapping[tuple[int, int], int]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    decoupling: Decoupling | None = None
    """What the gate found over the checkpoints, where it was run."""
    blame: Mapping[str, Any] | None = None
    """What blame found, as it lies in `audit/blame.json`, where it was run."""

    def find(self, name: str, set_name: str | None = None, agent: str = "", key: str = "") -> Metric | None:
        """The first metric of that name, or None."""
        return next(self.all(name, set_name, agent=agent, key=key), None)

    def all(self, name: str, set_name: str | None = None, **fixed: str) -> Iterator[Metric]:
        """Metrics of that name whose agent and key are as given."""
        for metric in self.metrics:
            right = metric.name == name and set_name in (None, metric.set)
            if right and all(getattr(metric, attribute) == value for attribute, value in fixed.items()):
                yield metric

    @property
    def unit(self) -> str:
        """What returns count."""
        return self.sets[0].unit if self.sets else self.facts.get("Reward unit", "reward")

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if check.passed is False]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": RESULTS_VERSION,
            "run": self.run,
            "facts": self.facts,
            "confidence": self.confidence,
            "sets": [
                {"name": s.name, "game": s.game, "unit": s.unit, "agents": list(s.agents), "episodes": len(s.episodes)}
                for s in self.sets
            ],
            "metrics": [_metric(m) for m in self.metrics],
            "checks": [{"name": c.name, "set": c.set, "passed": c.passed, "detail": c.detail} for c in self.checks],
            "curve": [{"round": p.round, **p.estimate._asdict()} for p in self.curve],
            "trends": [{"first": t.first, "last": t.last, **_metric(t.metric)} for t in self.trends],
            "visits": {
                name: {agent: [[x, y, n] for (x, y), n in sorted(cells.items())] for agent, cells in agents.items()}
                for name, agents in self.visits.items()
            },
            "notes": self.notes,
        }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "set": metric.set,
        "agent": metric.agent,
        "key": metric.key,
        **metric.estimate._asdict(),
        "unit": metric.unit,
    }


def metric_message(metric: Metric) -> audit_pb.Metric:
    """The metric on the wire; what is undefined stays absent."""
    value, low, high, episodes = metric.estimate
    return audit_pb.Metric(
        name=metric.name,
        set=metric.set,
        agent=metric.agent,
        key=metric.key,
        value=value,
        low=low,
        high=high,
        episodes=episodes,
        unit=metric.unit,
    )


def curve_metrics(results: AuditResults) -> list[Metric]:
    """The learning curve as metrics, the round as their key."""
    return [Metric("training_return", "train", p.estimate, key=str(p.round), unit=results.unit) for p in results.curve]


def write_file(path: Path, text: str) -> Path:
    """Written aside and renamed: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    return path


def write_results(results: AuditResults, run: Path) -> Path:
    """The JSON's path; the metrics lie beside it as Parquet."""
    text = json.dumps(results.to_json(), allow_nan=False, ensure_ascii=False, indent=1)
    written = write_file(run / "audit" / "results.json", text + "\n")
    aside = written.with_name(".metrics.parquet.tmp")
    pq.write_table(frames.metrics(results.metrics), aside)
    aside.replace(written.with_name("metrics.parquet"))
    return written
