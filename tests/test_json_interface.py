"""Free JSON answers end to end: real servers, a language model that writes what it can, typed refusals of the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

POTLUCK = Path(sys.executable).parent / "potluck"


def potluck(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([POTLUCK, *args], capture_output=True, text=True, timeout=290)


def test_a_language_model_answers_in_json_and_is_recorded(tmp_path: Path) -> None:
    """`tiny` writes no JSON: every answer is a wait that says why, and the episode replays to its digest."""
    run = tmp_path / "run"
    trained = potluck("train", "--rounds", "0", "--horizon", "8", "--out", tmp_path, "--name", "run")
    assert trained.returncode == 0, trained.stderr
    refused = potluck("eval", run, "--interface", "json", "--teams", "frozen", "uniform")
    assert refused.returncode == 2
    assert "uniform is a rule over menus and writes no text" in refused.stderr
    judged = potluck("eval", run, "--interface", "json", "--seeds", "1", "--teams", "frozen")
    assert judged.returncode == 0, judged.stderr
    assert "json/frozen" in judged.stdout
    rows = pq.read_table(run / "decisions" / "eval-json-frozen.parquet").to_pylist()
    assert len(rows) > 2
    assert all(row["text"] and row["options"] == ["wait"] and row["logprob"] is None for row in rows)
    assert {row["outcome"] for row in rows} <= {"explicit:unparsable", "truncated"}
    assert {row["set"] for row in rows} == {"eval/json/frozen"}
    again = potluck("replay", run)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "1 of 1 episodes" in again.stdout
