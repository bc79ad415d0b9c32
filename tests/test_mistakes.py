"""What goes wrong late elsewhere is said early here, typed, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
COMMANDS = ("potluck", "potluck-envs", "potluck-policy", "potluck-audit", "potluck-optionlib")


def potluck(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "potluck", *args], capture_output=True, text=True, timeout=280)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_that_nobody_reads_to_its_end_is_no_traceback(command: str) -> None:
    """`COMMAND --help | head`, where head is gone before the first byte."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([BIN / command, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--game", "overcooked/forced_cordination"), "did you mean overcooked/forced_coordination"),
        (("--backbone", "tabluar"), "no backbone 'tabluar'"),
        (("--algorithm.name", "episod"), 'there is no algorithm "episod"; known: episode'),
        (("--envs", "127.0.0.1"), '--envs: "127.0.0.1" is no address; give host:port'),
        (("--policy", "127.0.0.1:99999"), "is no address"),
    ],
)
def test_a_start_that_fails_leaves_no_run_folder(tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    done = potluck("train", "--backbone", "tabular", *flags, "--rounds", "1", "--out", tmp_path / "runs", "--name", "x")
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs" / "x").exists()
    if kept := re.search(r"\(log: (.*)\)", done.stderr):
        assert "no backbone" in Path(kept.group(1)).read_text()


def test_a_taken_name_is_said_before_services_start(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "config.json").write_text("{}")
    done = potluck("train", "--backbone", "tabular", "--out", tmp_path, "--name", "x")
    assert done.returncode == 2
    assert "holds a run; go on with --resume" in done.stderr
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [".lock", "config.json"]


def test_a_file_where_run_folders_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    done = potluck("train", "--backbone", "tabular", "--out", tmp_path / "runs", "--name", "x")
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "[Errno" not in done.stderr
