"""One trace per round across trainer, env and policy servers, received by a real OTLP server; no byte changes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

spec = importlib.util.spec_from_file_location("otlp", Path(__file__).with_name("otlp.py"))
assert spec is not None
assert spec.loader is not None
otlp = importlib.util.module_from_spec(spec)
sys.modules["otlp"] = otlp
spec.loader.exec_module(otlp)

BIN = Path(sys.executable).parent
ROUNDS, K = 2, 3
TRACE_COLUMNS = {"trace_id", "run"}


def train(folder: Path, endpoint: str | None) -> Path:
    env = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    if endpoint:
        env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER_ARG": "1"}
    command = [
        BIN / "potluck", "train", "--game", "overcooked/forced_coordination", "--backbone", "tabular",
        "--horizon", "250",
        "--rounds", str(ROUNDS), "--episodes-per-round", str(K), "--temperature", "1", "--learner.beta", "0",
        "--out", str(folder), "--name", "run",
    ]  # fmt: skip
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    with otlp.receiver() as kept:
        run = train(tmp_path_factory.mktemp("traced"), kept.endpoint)
    return kept, run


def test_each_round_is_one_tree_over_three_services(traced: tuple[Any, Path]) -> None:
    kept, _ = traced
    rounds = [s for s in kept.spans if s.name == "round"]
    assert len(rounds) == ROUNDS
    assert len({s.trace_id for s in rounds}) == ROUNDS
    for root in rounds:
        assert root.parent_id == ""
        members = [s for s in kept.spans if s.trace_id == root.trace_id]
        assert {s.service for s in members} == {"potluck-trainer", "potluck-envs", "potluck-policy"}
        orphans = [s.name for s in members if s is not root and kept.ancestors(s)[-1] != "round"]
        assert orphans == []


def test_parents_are_who_asked(traced: tuple[Any, Path]) -> None:
    kept, _ = traced
    parents = Counter(
        (s.service, s.name.rsplit("/", 1)[-1], (kept.ancestors(s) or [""])[0].rsplit("/", 1)[-1]) for s in kept.spans
    )
    names = {(service, name) for service, name, _ in parents}
    assert parents[("potluck-trainer", "episode", "round")] == ROUNDS * K
    assert parents[("potluck-envs", "episode", "episode")] == ROUNDS * K
    assert parents[("potluck-trainer", "learner_step", "round")] == ROUNDS * 2
    assert ("potluck-trainer", "wave") in names
    assert any(service == "potluck-policy" and parent == "Choose" for service, _, parent in parents)


def test_no_span_is_lost_at_shutdown(traced: tuple[Any, Path]) -> None:
    """Every episode of the records has its span on both sides: workers and servers flushed before they went."""
    kept, run = traced
    recorded = {i for f in (run / "episodes").glob("*.parquet") for i in pq.read_table(f)["episode_id"].to_pylist()}
    assert len(recorded) == ROUNDS * K
    for service in ("potluck-trainer", "potluck-envs"):
        seen = {
            s.attributes.get("potluck.episode.id") for s in kept.spans if s.service == service and s.name == "episode"
        }
        assert seen == recorded


def test_records_carry_the_trace(traced: tuple[Any, Path]) -> None:
    kept, run = traced
    ids = {i for f in (run / "decisions").glob("*.parquet") for i in pq.read_table(f)["trace_id"].to_pylist()}
    assert ids == {s.trace_id for s in kept.spans if s.name == "round"}


def learned(run: Path) -> dict[str, str]:
    """sha256 of all that training made, less the trace ids: adapters by file, records by content."""
    digests = {
        str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted((run / "adapters").rglob("*"))
        if p.is_file()
    }
    for file in sorted([*(run / "decisions").glob("*.parquet"), *(run / "episodes").glob("*.parquet")]):
        table = pq.read_table(file)
        table = table.drop_columns([c for c in table.column_names if c in TRACE_COLUMNS])
        digests[str(file.relative_to(run))] = hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()
    return digests


def test_training_is_the_same_byte_for_byte_without_tracing(traced: tuple[Any, Path], tmp_path: Path) -> None:
    kept, run = traced
    before = len(kept.spans)
    assert before > 0
    plain = train(tmp_path, None)
    assert len(kept.spans) == before
    assert learned(plain) == learned(run)
    assert len(learned(run)) > 2 * ROUNDS


def test_the_comparison_sees_one_changed_adapter_byte(traced: tuple[Any, Path], tmp_path: Path) -> None:
    import shutil

    _, run = traced
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    weights = sorted((copy / "adapters").rglob("*.safetensors"))[0]
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert learned(copy) != learned(run)
