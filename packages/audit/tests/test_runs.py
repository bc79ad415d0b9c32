"""Tables of a run, on records that a real training left behind (cut down to a few episodes)."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from potluck_audit import frames, runs
from potluck_audit.errors import CorruptRecords, InvalidRequest, NewerSchema, UnknownRun
from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.metrics.trends import Trend
from potluck_audit.records import load_run
from potluck_audit.saved import NotAudited, load_results

SMALL = Path(__file__).parent / "data" / "small_run"
PAGE = Path(__file__).parents[3] / "docs" / "audit" / "notebook.md"


@pytest.fixture(scope="module")
def run():
    return runs.load(SMALL)


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(SMALL, tmp_path / "copied"))


def test_episodes_are_those_of_the_records(run):
    table = run.episodes()
    assert table.schema == frames.EPISODES
    assert run.agents == ("agent_0", "agent_1")
    assert set(run.sets) == {"train", "eval/trained", "eval/frozen", "eval/solo/agent_0", "eval/solo/agent_1"}
    records = load_run(SMALL)
    assert table.num_rows == len(records.episodes) == 21
    found = {(r["set"], r["episode_id"]): r for r in table.to_pylist()}
    for episode in records.episodes:
        row = found[episode.set, episode.episode_id]
        assert (row["team_return"], row["seed"], row["steps"]) == (episode.team_return, episode.seed, episode.steps)
        assert json.loads(row["policies"]) == episode.policies


def test_episodes_of_one_agent_name_its_policy(run):
    table = run.episodes(set="eval/solo/agent_0", agent="agent_1")
    assert table["policy"].to_pylist() == ["noop"] * 3
    assert all(len(p) == 64 for p in run.episodes(set="eval/trained", agent="agent_1")["policy"].to_pylist())


def test_decisions_are_those_of_the_records(run):
    table = run.decisions(set="eval/trained", agent="agent_1")
    assert table.schema == frames.DECISIONS
    recorded = [d for e in load_run(SMALL).of("eval/trained") for d in e.decisions if d.agent == "agent_1"]
    rows = {(r["episode_id"], r["decision"]): r for r in table.to_pylist()}
    assert len(rows) == len(recorded) > 100
    for d in recorded:
        row = rows[d.episode_id, d.decision]
        assert (row["option"], row["target"], row["letter"]) == (d.option, d.target, d.letter)
        assert tuple(row["probabilities"]) == d.probabilities
        assert (
            row["probability"] == d.probabilities[row["options"].index(d.option)] or row["options"].count(d.option) > 1
        )
        assert (row["duration"], row["outcome"], row["step"]) == (d.duration, d.outcome, d.step)


def test_filters_cut_the_whole(run):
    whole = run.decisions()
    assert set(whole["set"].to_pylist()) == {"train", "eval/trained", "eval/frozen"}
    pieces = [run.decisions(s, a).num_rows for s in run.sets for a in run.agents]
    assert sum(pieces) == whole.num_rows
    trained = run.decisions(set="train")
    assert pc.count(trained["advantage"]).as_py() == trained.num_rows


def test_misspelt_filters_are_refused_and_not_empty(run):
    with pytest.raises(InvalidRequest, match=r"it has .*eval/trained"):
        run.decisions(set="eval/trainde")
    for table in (run.episodes, run.decisions, run.metrics, run.credit):
        with pytest.raises(InvalidRequest, match="it has agent_0, agent_1"):
            table(agent="agent_7")
    assert run.decisions(set="eval/solo/agent_0").schema == frames.DECISIONS  # known, and no decisions were kept


def test_metrics_and_credit_are_the_audits(run):
    saved = json.loads((SMALL / "audit" / "results.json").read_text())["metrics"]
    assert run.metrics().to_pylist() == [{k: m[k] for k in frames.METRICS.names} for m in saved]
    credit = run.credit(set="eval/trained")
    assert credit["agent"].to_pylist() == ["agent_0", "agent_1"]
    assert credit["baseline"].to_pylist() == ["noop", "noop"]
    total = run.metrics("eval/trained", name="return")["value"].to_pylist()[0]
    assert math.fsum(credit["value"].to_pylist()) == pytest.approx(total, abs=1e-9)
    assert run.metrics(agent="agent_1", name="credit").num_rows == run.credit(agent="agent_1").num_rows == 1


def test_figures_of_sets_without_episodes_are_found(run, monkeypatch):
    across = Metric("role_agreement", "teams", Estimate(0.8, 0.6, 1.0, 3), "", "matched", "share")
    found = runs.Run(run.path)
    monkeypatch.setitem(found.__dict__, "results", replace(run.results, metrics=[*run.results.metrics, across]))
    assert found.metrics(set="teams")["value"].to_pylist() == [0.8]
    with pytest.raises(InvalidRequest, match=r"no episode set 'team'.*teams"):
        found.metrics(set="team")
    with pytest.raises(InvalidRequest, match="no episode set 'teams'"):
        found.episodes(set="teams")


def test_undefined_is_null_and_never_nan(copied):
    part = copied / "episodes" / "eval-trained.parquet"
    table = pq.read_table(part)
    at = table.schema.get_field_index("team_return")
    pq.write_table(table.set_column(at, "team_return", pa.array([math.nan, None, 2.0])), part)
    assert runs.load(copied).episodes("eval/trained")["team_return"].to_pylist() == [None, None, 2.0]
    undefined = [r for r in runs.load(copied).metrics().to_pylist() if r["value"] is None]
    assert undefined
    assert all(r["low"] is None and r["high"] is None for r in undefined)


def test_a_choice_that_its_menu_lacks_is_null(copied):
    part = copied / "decisions" / "eval-trained.parquet"
    table = pq.read_table(part)
    at = table.schema.get_field_index("index")
    wrong = pa.array([999, -1, *table["index"].to_pylist()[2:]], table.schema.field("index").type)
    pq.write_table(table.set_column(at, "index", wrong), part)
    found = runs.load(copied).decisions("eval/trained")
    assert found["option"].to_pylist()[:2] == found["probability"].to_pylist()[:2] == [None, None]
    assert found["option"].to_pylist()[2:] == runs.load(SMALL).decisions("eval/trained")["option"].to_pylist()[2:]


def test_records_of_hand_without_the_later_columns(tmp_path, write_run, episode):
    row = {
        "schema_version": 1, "set": "eval/trained", "episode_id": "e10000", "agent": "agent_0", "decision": 0,
        "step": 0, "options": ["wait", "deliver"], "targets": ["", "(3,4)"], "letter": "B", "index": 1,
        "probabilities": [0.25, 0.75], "outcome": "success", "duration": 6,
    }  # fmt: skip
    [found] = runs.load(write_run(tmp_path, [episode()], decisions=[row])).decisions().to_pylist()
    assert (found["option"], found["target"], found["probability"], found["reward"]) == ("deliver", "(3,4)", 0.75, None)


def test_what_is_not_there_is_said(copied, tmp_path):
    with pytest.raises(UnknownRun, match="potluck train"):
        runs.load(tmp_path / "nowhere")
    results = copied / "audit" / "results.json"
    saved = json.loads(results.read_text())
    results.write_text(json.dumps(saved | {"schema_version": 99}))
    with pytest.raises(NewerSchema, match="schema 99"):
        load_results(copied)
    del saved["visits"]
    results.write_text(json.dumps(saved))
    with pytest.raises(CorruptRecords, match="KeyError 'visits'"):
        load_results(copied)
    results.unlink()
    with pytest.raises(NotAudited, match="potluck-audit run copied"):
        runs.load(copied).credit()


def example(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))


def test_the_page_s_example_runs_word_for_word(copied, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    copied.rename(tmp_path / "runs" / "demo")
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    space: dict = {}
    exec(compile(example(page), str(PAGE), "exec"), space)
    for name in ("episodes", "decisions", "metrics", "credit", "waits", "returns"):
        assert isinstance(space[name], pa.Table), name
        assert space[name].num_rows, name
    assert f"`{space['run'].decisions().num_columns}` columns" in page


def test_a_page_with_a_wrong_name_would_be_noticed(copied, monkeypatch):
    monkeypatch.chdir(copied.parent)
    broken = (
        example(PAGE.read_text(encoding="utf-8")).replace("runs/demo", "copied").replace("run.credit", "run.credits")
    )
    with pytest.raises(AttributeError):
        exec(compile(broken, "page", "exec"), {})


def test_the_course_of_training_is_a_table(run, monkeypatch):
    assert run.trends().schema == frames.TRENDS
    assert run.trends().num_rows == 0, "that audit knew of no trends"
    metric = Metric("soup_share", "train", Estimate(0.5, None, None, 3), "agent_1", "chain", "share")
    known = replace(run.results, trends=[Trend(0, 4, metric), Trend(5, 9, replace(metric, agent="agent_0"))])
    found = runs.Run(run.path)
    monkeypatch.setitem(found.__dict__, "results", known)
    assert [(r["first"], r["last"], r["agent"]) for r in found.trends().to_pylist()] == [
        (0, 4, "agent_1"),
        (5, 9, "agent_0"),
    ]
    assert found.trends(agent="agent_1", name="soup_share")["low"].to_pylist() == [None]
