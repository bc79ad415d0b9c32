"""An audit that finds less leaves the fuller one in place, under another name."""

import json

import pytest

from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.results import AuditResults, write_results
from potluck_audit.superseded import keep_fuller


def results(*names: str) -> AuditResults:
    return AuditResults(
        "a run", {}, 0.95, metrics=[Metric(name, "eval/trained", Estimate(1.0, None, None, 1)) for name in names]
    )


@pytest.fixture
def run(tmp_path):
    write_results(results("return", "shapley"), tmp_path)
    (tmp_path / "report.html").write_text("with credit")
    return tmp_path


def test_what_would_be_lost_is_kept_with_its_table_and_report(run):
    kept = keep_fuller(results("return"), run)
    assert kept == run / "audit" / "results.before-1.json"
    assert [one["name"] for one in json.loads(kept.read_text())["metrics"]] == ["return", "shapley"]
    assert (run / "audit" / "metrics.before-1.parquet").exists()
    assert (run / "report.before-1.html").read_text() == "with credit"


def test_a_second_one_gets_the_next_number(run):
    keep_fuller(results("return"), run)
    write_results(results("return", "synergy"), run)
    assert keep_fuller(results("return"), run) == run / "audit" / "results.before-2.json"
    assert (run / "audit" / "results.before-1.json").exists()


def test_an_audit_that_finds_as_much_or_more_replaces_it(run, tmp_path):
    assert keep_fuller(results("return", "shapley", "synergy"), run) is None
    assert (run / "audit" / "results.json").exists()
    assert keep_fuller(results("return"), tmp_path / "new") is None


def test_what_cannot_be_read_is_kept(run):
    (run / "audit" / "results.json").write_text("half a fi")
    kept = keep_fuller(results("return", "shapley"), run)
    assert kept is not None
    assert kept.read_text() == "half a fi"
