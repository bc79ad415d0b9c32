"""The command: what it prints, and how it ends."""

import os
import signal
import subprocess
import sys

import pytest

from potluck_envs import cli


def test_list_names_the_games(capsys):
    cli.main(["list"])
    names = capsys.readouterr().out.split()
    assert {"relay/two_rooms", "overcooked/forced_coordination", "overcooked/cramped_room"} <= set(names)
    assert names == sorted(names)


def test_conform_prints_a_table_and_ends_with_0_or_1(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["conform", "relay/two_rooms", "--episodes", "1", "--horizon", "20"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert "15 of 15 checks kept" in out
    with pytest.raises(SystemExit) as end:
        cli.main(["conform", "faulty/loses_the_team_reward", "--episodes", "1"])
    assert end.value.code == 1
    assert "FAIL  rewards add up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["conform", "relay/two_romms"], "did you mean relay/two_rooms"),
        (["conform"], "name at least one game"),
        (["serve", "--bind", "0.0.0.0:0"], "POTLUCK_TOKEN"),
    ],
)
def test_mistakes_end_with_what_to_do(args, said):
    with pytest.raises(SystemExit) as end:
        cli.main(args)
    assert said in str(end.value.code)


def test_serve_says_when_it_is_ready_and_ends_on_sigterm():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "potluck_envs.cli", "serve", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout.readline().startswith("ready potluck-envs on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in log
    assert "lost" not in log, "an orderly end is no crash"
