"""Burn-in: determinism, solo episodes, files, the command line."""

import json

import pyarrow.parquet as pq
import pytest

from potluck_optionlib import burnin, cli, games
from potluck_optionlib.burnin import BurninPlan
from potluck_optionlib.errors import BurninFormatError, UnknownGameError
from potluck_optionlib.mining import mine
from potluck_optionlib.verify import verify

PLAN = BurninPlan(solo_episodes=24, team_episodes=6, seed=1, horizon=20)


def test_the_same_plan_gives_the_same_records(toy) -> None:
    first, second = burnin.run(toy.ToyGame(), PLAN), burnin.run(toy.ToyGame(), PLAN)
    assert first.digest == second.digest
    assert first.digest != burnin.run(toy.ToyGame(), BurninPlan(24, 6, 2, 20)).digest


def test_solo_episodes_take_seats_in_turn_and_partners_are_noops(toy) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    actors = {(r.episode, r.agent) for r in result.records if r.solo}
    assert actors == {(episode, episode % 2) for episode in range(24)}
    assert {r.agent for r in result.records if not r.solo} == {0, 1}
    assert all(r.option != "noop" for r in result.records)


def test_unguarded_candidates_are_played_even_where_they_fail(toy) -> None:
    outcomes = {(r.option, r.outcome) for r in burnin.run(toy.ToyGame(), PLAN).records}
    assert {("toss", "explicit:NothingHeld"), ("grab", "effect_fail"), ("grab", "success")} <= outcomes


def test_the_toy_yields_its_guards_and_fresh_play_agrees(toy) -> None:
    library = mine([burnin.run(toy.ToyGame(), PLAN)])
    assert {"grab": {"held": "ball"}, "toss": {"explicit": "NothingHeld"}}.items() <= {
        g.option: dict(g.when) for g in library.guards if g.option != "ring"
    }.items()
    assert {g.when.get("held") for g in library.guards if g.option == "ring"} == {"none"}
    fresh = burnin.run(toy.ToyGame(), BurninPlan(6, 6, 99, 20))
    found = verify(library, fresh)
    assert found.checked > 0
    assert found.successes == 0


def test_verification_catches_a_guard_that_forbids_something_possible(toy) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    guard = mine([result]).guards[-1].model_copy(update={"option": "grab", "when": {"held": "none"}})
    wrong = mine([result]).model_copy(update={"guards": (guard,)})
    found = verify(wrong, result)
    assert found.successes > 0
    assert "succeeded" in found.lines[0]


def test_files_round_trip_and_tampering_shows(toy, tmp_path) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    path = tmp_path / "b.parquet"
    result.save(path)
    assert burnin.load(path) == result
    assert not list(tmp_path.glob("*.part"))
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(BurninFormatError, match="changed after"):
        burnin.load(path)
    path.write_text("no parquet")
    with pytest.raises(BurninFormatError, match="not a burn-in file"):
        burnin.load(path)


def test_command_line(toy, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(games, "find_provider", lambda name: toy.ToyProvider())
    records, library = tmp_path / "b.parquet", tmp_path / "g.json"
    small = ["--solo-episodes", "6", "--team-episodes", "6"]
    cli.main(["burnin", "toy/hands", "--out", str(records), *small, "--horizon", "20"])
    cli.main(["mine", str(records), "--out", str(library)])
    cli.main(["verify", "toy/hands", str(library), *small])
    cli.main(["report", str(library)])
    out = capsys.readouterr().out
    assert "records, digest" in out
    assert "0 succeeded" in out
    assert "left out when" in out
    wrong = json.loads(library.read_text())
    wrong["guards"] = [{"option": "grab", "channel": "inferred", "when": {"held": "none"}, "support": 5}]
    library.write_text(json.dumps(wrong))
    with pytest.raises(SystemExit) as stop:
        cli.main(["verify", "toy/hands", str(library), *small])
    assert stop.value.code == 1
    with pytest.raises(SystemExit) as stop:
        cli.main(["burnin", "toy/nothing", "--out", str(records)])
    assert stop.value.code == 2
    assert "known: toy/hands" in capsys.readouterr().err


def test_games_that_nobody_offers() -> None:
    with pytest.raises(UnknownGameError, match="No installed package"):
        games.make_game("nowhere/nothing")
