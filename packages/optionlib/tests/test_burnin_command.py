"""`potluck-optionlib burnin` as somebody at a prompt sees it."""

import re

import pytest

from potluck_optionlib import burnin, cli, games
from potluck_optionlib.burnin import BurninPlan, load
from potluck_optionlib.commands import play

SMALL = ["--solo-episodes", "6", "--team-episodes", "6", "--horizon", "20"]


@pytest.fixture(autouse=True)
def _toy_games(toy, monkeypatch) -> None:
    monkeypatch.setattr(games, "find_provider", lambda name: toy.ToyProvider())


def stopped(*args: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["burnin", *args])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_into_a_folder_and_again(toy, tmp_path, capsys) -> None:
    folder = tmp_path / "b"
    for _ in range(2):
        cli.main(["burnin", "toy/hands", "--out", str(folder), *SMALL, "--shard-episodes", "4"])
    first, second = capsys.readouterr().out.splitlines()
    digest = burnin.run(toy.ToyGame(), BurninPlan(6, 6, 0, 20)).digest
    assert re.search(f"360 records, digest {digest}", first)
    assert re.search(f"360 records, digest {digest}", second)
    assert load(folder).digest == digest


def test_what_was_cut_is_said_on_standard_error(tmp_path, capsys) -> None:
    folder = tmp_path / "b"
    cli.main(["burnin", "toy/hands", "--out", str(folder), *SMALL])
    shard = next(folder.glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:99])
    (folder / "x.part").write_text("")
    cli.main(["burnin", "toy/hands", "--out", str(folder), *SMALL])
    complaint = capsys.readouterr().err
    assert "x.part: left over" in complaint
    assert re.search(rf"{shard.name}: .* was cut .*; played again", complaint)


def test_into_one_file(toy, tmp_path, capsys) -> None:
    path = tmp_path / "b.parquet"
    cli.main(["burnin", "toy/hands", "--out", str(path), *SMALL])
    assert load(path) == burnin.run(toy.ToyGame(), BurninPlan(6, 6, 0, 20))
    assert stopped("toy/hands", "--out", str(path), *SMALL, "--workers", "2") == 2
    assert "--workers" in capsys.readouterr().err


def test_another_plan_in_the_same_folder_is_an_error_with_the_cure(tmp_path, capsys) -> None:
    folder = str(tmp_path / "b")
    cli.main(["burnin", "toy/hands", "--out", folder, *SMALL])
    assert stopped("toy/hands", "--out", folder, *SMALL, "--seed", "1") == 2
    assert "seed 0 != 1" in capsys.readouterr().err


def test_unknown_games_and_plans_that_cannot_be_played(tmp_path, capsys) -> None:
    assert stopped("toy/nothing", "--out", str(tmp_path / "b")) == 2
    assert "known: toy/hands" in capsys.readouterr().err
    assert stopped("toy/hands", "--out", str(tmp_path / "b"), "--horizon", "0") == 2
    assert "horizon must be at least 1" in capsys.readouterr().err


def test_raised_executions_are_reported_at_the_end(toy, tmp_path, capsys, monkeypatch) -> None:
    def begin(self, agent, instance):
        raise LookupError(instance.option)

    monkeypatch.setattr(toy.ToyGame, "begin", begin)
    cli.main(["burnin", "toy/hands", "--out", str(tmp_path / "b"), "--solo-episodes", "0", "--team-episodes", "40"])
    assert re.search(r"ring: raised LookupError \d+ times", capsys.readouterr().err)


def test_without_a_terminal_a_plain_line_comes_now_and_then(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(play, "_LINE_SECONDS", 0.0)
    cli.main(["burnin", "toy/hands", "--out", str(tmp_path / "b"), *SMALL, "--shard-episodes", "3"])
    lines = [line for line in capsys.readouterr().err.splitlines() if "episodes" in line]
    assert re.fullmatch(r"toy/hands: 12/12 episodes, 360 decisions, \d+/s, 0 s left", lines[-1])
