"""The `potluck` command as a user has it: real services started and stopped, Ctrl-C, resuming, `up`, learning."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
POTLUCK = Path(sys.executable).parent / "potluck"
# A shell that starts a job in the background may have SIGINT ignored for it, and children inherit that.
HEARS = """import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])"""
SMALL = (
    f"@{ROOT}/configs/cramped-tabular.toml", "--horizon", "150", "--episodes-per-round", "4", "--learner.lr", "0.08",
    "--seed", "5",
)  # fmt: skip


class Started(subprocess.Popen[str]):
    """The command; it and all that it starts carry a mark in their environment."""

    def __init__(self, *args: str) -> None:
        self.mark = f"POTLUCK_TEST_MARK={uuid.uuid4()}"
        env = {**os.environ, **dict([self.mark.split("=")])}
        command = [sys.executable, "-c", HEARS, str(POTLUCK), *args]
        super().__init__(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)

    def family(self) -> dict[int, str]:
        """Living processes with the mark, by id: their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        return found

    def read_until(self, word: str) -> str:
        """Output up to the line with the word."""
        assert self.stdout is not None
        said = ""
        while word not in said:
            line = self.stdout.readline()
            assert line, said
            said += line
        return said


@contextlib.contextmanager
def started(*args: str) -> Iterator[Started]:
    """A command; whatever is left of it is killed at the end."""
    process = Started(*args)
    try:
        yield process
    finally:
        for pid in process.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def train(*args: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([POTLUCK, "train", *args], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def commits(run: Path) -> list[dict[str, object]]:
    """What each round left: adapters, optimisers and generators by digest."""
    return [{k: v for k, v in line.items() if "time" not in k} for line in lines(run / "checkpoints.jsonl")]


def wait_for(condition: Callable[[], bool], timeout: float = 120) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_ctrl_c_and_resume_give_the_same_run(tmp_path: Path) -> None:
    """Interrupted in the middle of a round, nothing is left running, and the resumed run is bit for bit the other."""
    whole, cut, other = (tmp_path / name for name in ("whole", "cut", "other"))
    train(*SMALL, "--rounds", "5", "--out", str(tmp_path), "--name", "whole")
    with started("train", *SMALL, "--rounds", "5", "--out", str(tmp_path), "--name", "cut") as process:
        wait_for(lambda: len(lines(cut / "metrics.jsonl")) >= 2)
        assert len(process.family()) > 3
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130, out
        wait_for(lambda: not process.family(), 10)
    assert f"--resume {cut}" in out
    assert 2 <= len(lines(cut / "metrics.jsonl")) < 5
    train("--resume", str(cut), "--rounds", "5")
    assert commits(cut) == commits(whole)
    assert [m["returns"] for m in lines(cut / "metrics.jsonl")] == [
        m["returns"] for m in lines(whole / "metrics.jsonl")
    ]
    train(*SMALL[:-1], "6", "--rounds", "1", "--out", str(tmp_path), "--name", "other")
    assert commits(other)[1] != commits(cut)[1]


def test_up_serves_until_ctrl_c(tmp_path: Path) -> None:
    """`potluck up` says how to use its services; a run uses them; Ctrl-C ends all."""
    with started("up", "--backbone", "tabular", "--logs", str(tmp_path / "logs")) as process:
        said = process.read_until("Ctrl-C")
        hint = re.search(r"^potluck train (.*)$", said, re.MULTILINE)
        assert hint, said
        train(*SMALL, *hint.group(1).split(), "--rounds", "1", "--out", str(tmp_path), "--name", "guest")
        assert not (tmp_path / "guest" / "logs").exists()
        raw = ("--interface", "native", "--rounds", "1", "--horizon", "20", "--out", str(tmp_path), "--name", "raw")
        train(*SMALL, *hint.group(1).split(), *raw)
        table = pq.read_table(tmp_path / "raw" / "decisions" / "round-000000.parquet", columns=["options", "agent"])
        assert table.num_rows == 4 * 2 * 20
        assert {option for row in table["options"].to_pylist() for option in row} == {"primitive"}
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert process.returncode == 130
        wait_for(lambda: not process.family(), 10)


def test_up_tells_which_service_ended(tmp_path: Path) -> None:
    with started("up", "--backbone", "tabular", "--logs", str(tmp_path / "logs")) as process:
        process.read_until("Ctrl-C")
        servers = [pid for pid, line in process.family().items() if "/potluck-policy serve" in line]
        for pid in servers:
            os.kill(pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "potluck-policy ended by itself" in out
        wait_for(lambda: not process.family(), 10)


BAR = 1.0
LEARNING = (
    f"@{ROOT}/configs/cramped-tabular.toml", "--episodes-per-round", "12", "--rounds", "16", "--horizon", "200",
)  # fmt: skip


@pytest.mark.learning
@pytest.mark.parametrize(("rate", "learns"), [("0.08", True), ("1e-9", False)])
def test_a_table_learns_through_the_services(tmp_path: Path, rate: str, learns: bool) -> None:
    """Soups on cramped_room rise within 16 rounds; at a learning rate of nothing they do not."""
    train(*LEARNING, "--learner.lr", rate, "--out", str(tmp_path), "--name", "run")
    returns = [float(str(m["return_mean"])) for m in lines(tmp_path / "run" / "metrics.jsonl")]
    first, last = sum(returns[:4]) / 4, sum(returns[-4:]) / 4
    assert (last > first + BAR) is learns, returns
