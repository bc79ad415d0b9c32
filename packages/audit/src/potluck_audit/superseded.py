"""An audit that says less than the one before does not replace it: the earlier files are kept beside the new ones.

What took servers to find (solo values, credit, replays) is not found again by an audit without servers. The earlier
results, metrics and report then go on as `results.before-1.json` and so on, with the next free number.
"""

from __future__ import annotations

from pathlib import Path

from potluck_audit.errors import CorruptRecords, NewerSchema
from potluck_audit.results import AuditResults
from potluck_audit.saved import load_results

_FILES = ("audit/results.json", "audit/metrics.parquet", "report.html")


def keep_fuller(results: AuditResults, run: Path) -> Path | None:
    """Sets an earlier audit aside if it has metrics that these results lack, or cannot be read; its results' new path,
    or None where nothing would be lost. Raises OSError."""
    earlier = run / _FILES[0]
    if not earlier.exists() or _covers(results, run):
        return None
    number = next(n for n in range(1, 10**6) if not _aside(earlier, n).exists())
    for file in (run / name for name in _FILES):
        if file.exists():
            file.rename(_aside(file, number))
    return _aside(earlier, number)


def _covers(results: AuditResults, run: Path) -> bool:
    try:
        earlier = load_results(run).metrics
    except (CorruptRecords, NewerSchema):
        return False
    return {(one.name, one.set) for one in earlier} <= {(one.name, one.set) for one in results.metrics}


def _aside(file: Path, number: int) -> Path:
    return file.with_name(f"{file.stem}.before-{number}{file.suffix}")
