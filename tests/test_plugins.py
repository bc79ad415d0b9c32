"""The plug-in pages do what they say: each is installed from its text and used through the real commands."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("plugin_page", Path(__file__).with_name("plugin_page.py"))
assert spec is not None
assert spec.loader is not None
plugin_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin_page)

BIN = Path(sys.executable).parent


def run(env: dict[str, str], *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / command[0], *command[1:]], cwd=cwd, env=env, capture_output=True, text=True, timeout=280
    )


def test_a_game_from_its_page_keeps_every_check(tmp_path: Path) -> None:
    env = plugin_page.install("game", tmp_path)
    done = run(env, "potluck-envs", "conform", "bell/line", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout


def test_the_game_page_with_a_fault_is_caught(tmp_path: Path) -> None:
    env = plugin_page.install("game", tmp_path)
    module = tmp_path / "bell_game.py"
    faulty = module.read_text().replace("random.Random(seed), 0, list(HOMES)", "random.Random(7), 0, list(HOMES)", 1)
    assert faulty != module.read_text()
    module.write_text(faulty)
    done = run(env, "potluck-envs", "conform", "bell/line", cwd=tmp_path)
    assert done.returncode != 0
    assert "FAIL  different seeds differ" in done.stdout


def test_a_table_learns_the_page_s_game_with_the_page_s_algorithm(tmp_path: Path) -> None:
    env = plugin_page.install("game", tmp_path)
    plugin_page.install("algorithm", tmp_path)
    done = run(
        env, "potluck", "train", "--game", "bell/line", "--backbone", "tabular", "--rounds", "25", "--horizon", "60",
        "--algorithm.name", "rloo", "--temperature", "1", "--learner.lr", "0.2", "--learner.beta", "0",
        "--name", "bell", "--out", "runs", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "runs/bell/metrics.jsonl").read_text().splitlines()]
    first, last = (sum(line["return_mean"] for line in part) / 5 for part in (lines[:5], lines[-5:]))
    assert last > 2 * first


def test_a_backbone_from_its_page_is_served_by_name(tmp_path: Path) -> None:
    env = plugin_page.install("backbone", tmp_path)
    command = [BIN / "potluck-policy", "serve", "--backbone", "nearest", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline()
            assert ready.startswith("ready potluck-policy on ")
            done = run(env, "potluck-policy", "describe", ready.split()[-1], cwd=tmp_path)
        finally:
            server.terminate()
    assert done.returncode == 0, done.stderr
    assert "nearest" in done.stdout


@pytest.mark.parametrize(
    "command", [("potluck-envs", "conform", "bell/line"), ("potluck-policy", "serve", "--backbone", "nearest")]
)
def test_without_the_page_s_package_the_name_is_unknown(tmp_path: Path, command: tuple[str, ...]) -> None:
    import os

    done = run(dict(os.environ), *command, cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


PLAY_THE_PAGE = """
from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.local import Table
seat = pb.SeatBaseline(agent="agent_1", baseline=pb.BASELINE_PLUGIN, plugin="hoarder")
noop = pb.SeatBaseline(agent="agent_0", baseline=pb.BASELINE_NOOP)
start = pb.Start(game="overcooked/cramped_room", seed=3, horizon=60, detail=pb.DETAIL_STEPS, baselines=[noop, seat])
update = Table().send(pb.Command(episode_id="a", request_id="1", start=start))
if update.HasField("refused"):
    raise SystemExit(update.refused.status.message)
options = [o.option for o in update.finished.progress.options]
print(len(options), options[0], Table().replay(update.finished.recording).digest == update.finished.recording.digest)
"""


def test_a_baseline_from_its_page_plays_and_replays(tmp_path: Path) -> None:
    env = plugin_page.install("baseline", tmp_path)
    done = run(env, "python", "-c", PLAY_THE_PAGE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    count, first, same = done.stdout.split()
    assert int(count) > 1
    assert first.startswith("pick_")
    assert same == "True"


def test_an_unknown_baseline_is_refused_by_name(tmp_path: Path) -> None:
    import os

    done = run(dict(os.environ), "python", "-c", PLAY_THE_PAGE, cwd=tmp_path)
    assert done.returncode != 0
    assert "hoarder" in done.stderr
    assert "potluck.baselines" in done.stderr
