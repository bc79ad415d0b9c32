"""What blame writes below a run folder: `audit/blame/`. The run's own records are never touched.

blame.json        everything: `BlameResults.to_json`
errors.parquet    one row an episode: who, where, what would have been better, or why it is undecided
curve.parquet     one row a prefix of an episode: the estimated probability of success
shares.parquet    one row a decision and judge
pairs.jsonl, pairs.parquet    contrast pairs in TRL's preference format
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from potluck_audit.blame.pairs import Form, Pair, write_pairs, write_table
from potluck_audit.blame.results import SCHEMA_VERSION, BlameResults, Located, rows
from potluck_audit.results import write_file

FOLDER = Path("audit") / "blame"

_S, _I, _F = pa.string(), pa.int32(), pa.float64()
_VERSION = [("schema_version", _I)]

ERRORS = pa.schema(
    [
        *_VERSION, ("set", _S), ("episode_id", _S), ("game", _S), ("seed", pa.uint64()), ("unit", _S),
        ("team_return", _F), ("threshold", _F), ("tau", _F), ("continuation", _S), ("scan", _S),
        ("monotone", pa.bool_()), ("agent", _S), ("decision", _I), ("boundary", _I), ("step", _I), ("taken", _S),
        ("better", _S), ("success_gain", _F), ("success_gain_se", _F), ("return_gain", _F), ("return_gain_se", _F),
        ("success_before", _F), ("success_after", _F), ("certainty", _F), ("undecided", _S), ("why", _S),
        ("repairs", _I), ("branches", pa.int64()), ("decisions_played", pa.int64()),
    ]
)  # fmt: skip
CURVE = pa.schema(
    [
        *_VERSION, ("set", _S), ("episode_id", _S), ("boundary", _I), ("step", _I), ("success", _F), ("low", _F),
        ("high", _F), ("plays", _I),
    ]
)  # fmt: skip
SHARES = pa.schema(
    [
        *_VERSION, ("set", _S), ("episode_id", _S), ("agent", _S), ("decision", _I), ("boundary", _I), ("step", _I),
        ("option", _S), ("target", _S), ("judge", _S), ("label", _F), ("label_se", _F), ("share", _F), ("credit", _F),
    ]
)  # fmt: skip


def write_blame(results: BlameResults, pairs: Sequence[Pair], run: Path, form: Form) -> Path:
    """Returns the JSON's path."""
    folder = run / FOLDER
    version = {"schema_version": SCHEMA_VERSION}
    write_table([version | error_row(one) for one in results.located], ERRORS, folder / "errors.parquet")
    curve = [
        version
        | {"set": one.set, "episode_id": one.episode_id, "boundary": p.boundary, "step": p.step}
        | {"success": p.share.p, "low": p.share.low, "high": p.share.high, "plays": p.share.plays}
        for one in results.located
        for p in one.curve
    ]
    write_table(curve, CURVE, folder / "curve.parquet")
    write_table([version | row for row in rows(results.shares)], SHARES, folder / "shares.parquet")
    write_pairs(pairs, folder, form)
    written = json.dumps(results.to_json(), allow_nan=False, ensure_ascii=False, indent=1)
    return write_file(folder / "blame.json", written + "\n")


def error_row(located: Located) -> dict[str, Any]:
    """One episode, flat."""
    error = located.error
    gain = error.gain if error else None
    same = (
        "set", "episode_id", "game", "seed", "unit", "team_return", "threshold", "tau", "continuation", "scan",
        "monotone", "why",
    )  # fmt: skip
    row: dict[str, Any] = {name: getattr(located, name) for name in same}
    row |= {
        "undecided": located.undecided.value if located.undecided else None,
        "repairs": len(located.repairs),
        "branches": located.spent.branches,
        "decisions_played": located.spent.decisions,
    }
    if error is None:
        return row
    return row | {
        "agent": error.agent,
        "decision": error.decision,
        "boundary": error.boundary,
        "step": error.step,
        "taken": f"{error.taken.option} {error.taken.target}".strip(),
        "better": f"{error.better.option} {error.better.target}".strip() if error.better else None,
        "success_gain": gain.success if gain else None,
        "success_gain_se": gain.success_se if gain else None,
        "return_gain": gain.returns if gain else None,
        "return_gain_se": gain.returns_se if gain else None,
        "success_before": error.before.p,
        "success_after": error.after.p,
        "certainty": error.certainty,
    }
