"""What other commands found about a run and left in its `audit/` folder, for the report to show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from potluck_audit.errors import CorruptRecords, NewerSchema
from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.results import AuditResults
from potluck_audit.verdict.saved import load_verdict
from potluck_audit.verdict.verdict import Decoupling

BLAME = Path("audit") / "blame" / "blame.json"
SWAP = Path("audit") / "swap.json"
CREDIT = Path("audit") / "credit.json"
BLAME_VERSION = SWAP_VERSION = CREDIT_VERSION = 1
SHARED = ("credit", "credit_standard_error", "interaction")
"""Rows of credit.json that a report shows; values of coalitions would need a table for every baseline."""
MOST = 4
"""Episodes that are replayed because something is told of them."""


def found_before(run: Path) -> tuple[Decoupling | None, Mapping[str, Any] | None]:
    """The gate's verdict and blame's findings, None where the command was not run.

    Raises CorruptRecords and NewerSchema: a report without a verdict that was found would mislead.
    """
    return load_verdict(run), _load(run / BLAME, BLAME_VERSION, ("located", "shares", "agreement"))


def _load(file: Path, version: int, lists: Sequence[str]) -> Mapping[str, Any] | None:
    if not file.exists():
        return None
    try:
        data: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if data["schema_version"] > version:
            raise NewerSchema(file, data["schema_version"], version)
        for part in lists:
            if not isinstance(data[part], list):
                raise TypeError(part)
    except (ValueError, OSError, KeyError, TypeError) as broken:
        raise CorruptRecords(file, f"{type(broken).__name__} {broken}"[:200]) from broken
    return data


def swaps(run: Path) -> list[Metric]:
    """Rows of `potluck-audit swap`; none where it was not run. Raises CorruptRecords, NewerSchema."""
    data = _load(run / SWAP, SWAP_VERSION, ("metrics",))
    try:
        return [] if data is None else [_metric(row) for row in data["metrics"]]
    except (KeyError, TypeError) as broken:
        raise CorruptRecords(run / SWAP, f"{type(broken).__name__} {broken}"[:200]) from broken


def other_credits(results: AuditResults, run: Path) -> list[Metric]:
    """Rows of `potluck-audit credit` against baselines that the results do not have, and what those earn alone.

    Credit of other episodes than the results' is left out, and a note says so. Raises CorruptRecords, NewerSchema.
    """
    data = _load(run / CREDIT, CREDIT_VERSION, ("baselines",))
    if data is None:
        return []
    known = {metric.key for metric in results.all("credit")}
    found: list[Metric] = []
    try:
        for one in data["baselines"]:
            if one["baseline"] in known:
                continue
            team = results.find("return", data["set"])
            if team is None or team.estimate.value is None or abs(team.estimate.value - one["team_value"]) > 1e-9:
                results.notes.append(
                    f"{CREDIT} holds credit against {one['baseline']} for other episodes of {data['set']} than these; "
                    "it is left out. Run `potluck-audit credit` again."
                )
                continue
            rows = [_metric(row) for row in one["metrics"] if row["name"] in SHARED]
            alone = Estimate(one["empty_value"], None, None, team.estimate.episodes)
            found += [*rows, Metric("baseline_alone", data["set"], alone, "", one["baseline"], team.unit)]
    except (KeyError, TypeError) as broken:
        raise CorruptRecords(run / CREDIT, f"{type(broken).__name__} {broken}"[:200]) from broken
    return found


def _metric(row: Mapping[str, Any]) -> Metric:
    estimate = Estimate(row["value"], row["low"], row["high"], row["episodes"])
    return Metric(row["name"], row["set"], estimate, row["agent"], row["key"], row["unit"])


def told_of(blame: Mapping[str, Any] | None) -> list[str]:
    """Ids of a few episodes with an error, or with credit of decisions."""
    if blame is None:
        return []
    ids = [one["episode_id"] for one in blame["located"] if one["error"]]
    ids += [share["episode_id"] for share in blame["shares"]]
    return list(dict.fromkeys(ids))[:MOST]
