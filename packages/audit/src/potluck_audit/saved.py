"""Audit results as they lie in a run folder: `RUN/audit/results.json`, read back without the run's records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck.rpc.errors import Reason
from potluck_audit.errors import AuditError, CorruptRecords, NewerSchema
from potluck_audit.intervals import Estimate
from potluck_audit.metrics.curves import CurvePoint
from potluck_audit.metrics.metric import Check, Metric
from potluck_audit.metrics.trends import Trend
from potluck_audit.results import RESULTS_VERSION

Cells = Mapping[tuple[int, int], int]


class NotAudited(AuditError):
    """The run has no results yet."""

    def __init__(self, run: Path) -> None:
        super().__init__(
            Reason.UNKNOWN_AUDIT, f"{run.name} has not been audited", f"run `potluck-audit run {run.name}` first"
        )


@dataclass(frozen=True)
class SavedSet:
    """An audited episode set."""

    name: str
    game: str
    unit: str
    agents: tuple[str, ...]
    episodes: int


@dataclass(frozen=True)
class SavedResults:
    """What an audit found; see `AuditResults`."""

    run: str
    facts: Mapping[str, str]
    confidence: float
    sets: Sequence[SavedSet]
    metrics: Sequence[Metric]
    checks: Sequence[Check]
    curve: Sequence[CurvePoint]
    visits: Mapping[str, Mapping[str, Cells]]
    notes: Sequence[str]
    trends: Sequence[Trend] = ()

    def all(self, name: str, set_name: str | None = None, **fixed: str) -> Iterator[Metric]:
        """Metrics of that name whose agent and key are as given."""
        for metric in self.metrics:
            right = metric.name == name and set_name in (None, metric.set)
            if right and all(getattr(metric, attribute) == value for attribute, value in fixed.items()):
                yield metric

    def find(self, name: str, set_name: str | None = None, agent: str = "", key: str = "") -> Metric | None:
        """The first metric of that name, or None."""
        return next(self.all(name, set_name, agent=agent, key=key), None)

    @property
    def unit(self) -> str:
        """What returns count."""
        return self.sets[0].unit if self.sets else self.facts.get("Reward unit", "reward")


def load_results(run: Path | str) -> SavedResults:
    """Raises NotAudited, NewerSchema or CorruptRecords."""
    root = Path(run).expanduser()
    file = root / "audit" / "results.json"
    if not file.exists():
        raise NotAudited(root)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema_version"] > RESULTS_VERSION:
            raise NewerSchema(file, data["schema_version"], RESULTS_VERSION)
        return _results(data)
    except (ValueError, OSError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptRecords(file, f"{type(broken).__name__} {broken}"[:200]) from broken


def _results(data: Mapping[str, Any]) -> SavedResults:
    return SavedResults(
        run=data["run"],
        facts=data["facts"],
        confidence=data["confidence"],
        sets=[SavedSet(s["name"], s["game"], s["unit"], tuple(s["agents"]), s["episodes"]) for s in data["sets"]],
        metrics=[_metric(m) for m in data["metrics"]],
        checks=[Check(c["name"], c["set"], c["passed"], c["detail"]) for c in data["checks"]],
        curve=[CurvePoint(p["round"], _estimate(p)) for p in data["curve"]],
        visits={
            name: {agent: {(x, y): n for x, y, n in cells} for agent, cells in agents.items()}
            for name, agents in data["visits"].items()
        },
        notes=data["notes"],
        trends=[Trend(t["first"], t["last"], _metric(t)) for t in data.get("trends", ())],
    )


def _metric(data: Mapping[str, Any]) -> Metric:
    return Metric(data["name"], data["set"], _estimate(data), data["agent"], data["key"], data["unit"])


def _estimate(data: Mapping[str, Any]) -> Estimate:
    return Estimate(data["value"], data["low"], data["high"], data["episodes"])
