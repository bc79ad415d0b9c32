"""The command, in a process of its own where that matters."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

import grpc
import pyarrow.parquet as pq
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from potluck_audit import frames
from potluck_audit.cli import main

COMMAND = [sys.executable, "-c", "from potluck_audit.cli import main; main()"]


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(capsys):
    def call(*args) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        return Ended(ended.value.code, *capsys.readouterr())

    return call


def test_run_writes_results_and_report(command, tmp_path, write_run, team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    run = write_run(tmp_path / "demo", team([one, one]).episodes)
    ended = command("run", run)
    assert ended.returncode == 0, ended.stderr
    assert "eval/trained: 1.00 [1.00, 1.00] soups, 2 episodes" in ended.stdout
    assert f"report  {run / 'report.html'}" in ended.stdout
    assert json.loads((run / "audit" / "results.json").read_text())["run"] == "demo"


def test_a_failed_check_has_an_exit_status_of_its_own(command, tmp_path, write_run, team, tape):
    one = tape()
    one.soup(1, "agent_1", "agent_1")
    ended = command("run", write_run(tmp_path / "demo", team([one, one]).episodes), "--no-report")
    assert ended.returncode == 3
    assert "FAILED eval/trained: at least 4 cross-agent transfers" in ended.stdout
    assert not (tmp_path / "demo" / "report.html").exists()


@pytest.mark.parametrize(("value", "left_out"), [(float("nan"), True), (float("inf"), True), (1.0, False)])
def test_a_return_that_is_no_number_is_left_out_and_told(command, tmp_path, write_run, team, tape, value, left_out):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    odd, *rest = team([one, one, one]).episodes
    ended = command("run", write_run(tmp_path / "demo", [replace(odd, team_return=value), *rest]))
    assert ended.returncode == 0, ended.stderr
    assert f"soups, {3 - left_out} episodes" in ended.stdout
    notes = json.loads((tmp_path / "demo" / "audit" / "results.json").read_text())["notes"]
    assert any("1 of 3 episodes of eval/trained hold no return" in note for note in notes) == left_out


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"library_digest": "b" * 64}, "option library"),
        ({"horizon": 200, "dynamics": "x"}, "dynamics and horizon"),
    ],
)
def test_teams_of_different_libraries_are_not_subtracted(command, tmp_path, write_run, team, tape, changes, told):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    sets = [*team([one, one]).episodes, *team([one, one], "eval/frozen", **changes).episodes]
    run = write_run(tmp_path / "demo", sets)
    assert command("run", run, "--no-report").returncode == 0
    found = json.loads((run / "audit" / "results.json").read_text())
    assert any(m["name"] == "return_gain" for m in found["metrics"]) == (not told)
    notes = [note for note in found["notes"] if "are not compared" in note]
    expected = [f"eval/trained and eval/frozen are not compared: they differ in their {told}."] if told else []
    assert notes == expected


def test_figures_lie_as_parquet_beside_the_json(command, tmp_path, write_run, team, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    run = write_run(tmp_path / "demo", team([one]).episodes)
    assert command("run", run, "--no-report").returncode == 0
    table = pq.read_table(run / "audit" / "metrics.parquet")
    assert table.schema == frames.METRICS
    saved = json.loads((run / "audit" / "results.json").read_text())["metrics"]
    assert table.to_pylist() == [{name: row[name] for name in frames.METRICS.names} for row in saved]
    assert None in table["low"].to_pylist(), "one episode: undefined is null here, too"
    assert not list((run / "audit").glob(".*"))


def test_errors_are_one_line_with_a_cure(command, tmp_path):
    ended = command("run", tmp_path / "nowhere")
    assert ended.returncode == 1
    assert re.fullmatch(
        r"potluck-audit: there is no run at .*: give a folder .* \[UNKNOWN_RUN\]", ended.stderr.splitlines()[-1]
    )
    assert "Traceback" not in ended.stderr


def test_help_says_what_is_written_and_what_exit_statuses_mean(command):
    shown = command("run", "--help").stdout
    assert "report.html" in shown
    assert "Exit status" in shown
    assert "serve" in command("--help").stdout


def test_serve_says_when_it_is_ready_and_ends_on_sigterm():
    with subprocess.Popen([*COMMAND, "serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = re.fullmatch(r"ready potluck-audit on (127\.0\.0\.1:\d+)\n", server.stdout.readline())
            with grpc.insecure_channel(said.group(1)) as channel:
                request = health_pb2.HealthCheckRequest(service="potluck.audit.v1.AuditService")
                reply = health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 0
        assert server.stdout.read() == ""


@pytest.mark.parametrize(("bind", "reason"), [("0.0.0.0:0", "INSECURE"), ("127.0.0.1:99999", "INVALID_ARGUMENT")])
def test_a_bad_address_is_refused(command, monkeypatch, bind, reason):
    monkeypatch.delenv("POTLUCK_TOKEN", raising=False)
    ended = command("serve", "--bind", bind)
    assert ended.returncode == 1
    assert f"[{reason}]" in ended.stderr
