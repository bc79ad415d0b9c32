"""Teams of an evaluation: from this run, from folders, from other runs, and over other interfaces."""

import io
import json
import math
import shutil
from dataclasses import replace

import pytest

from potluck.play import Spoken
from potluck_trainer import evaluation
from potluck_trainer.commands.eval import judge
from potluck_trainer.commands.train import train_with
from potluck_trainer.errors import CheckpointError, ConfigError
from potluck_trainer.progress import Reporter
from potluck_trainer.records import reader
from potluck_trainer.teams import lineups


@pytest.fixture
def quiet():
    return Reporter(io.StringIO())


async def judged(session, run, names, quiet):
    checkpoint = run.checkpoints.last()
    return await judge(session, run, checkpoint, lineups(names, run, checkpoint), quiet)


async def test_a_team_from_adapter_folders(world, table_config, table_session, quiet, tmp_path):
    """One adapter folder per agent plays as the run it came from; two, none or a renamed one are refused."""
    session = table_session(table_config)
    run = await train_with(session, False, quiet)
    last = run.checkpoints.last()
    for agent, digest in last.adapters.items():
        shutil.copytree(run.path / "adapters" / digest, tmp_path / "team" / agent / digest)
    trained, copied = await judged(session, run, ["trained", f"adapters:{tmp_path / 'team'}"], quiet)
    assert copied.returns == trained.returns
    home = tmp_path / "team" / "agent_0"
    (home / last.adapters["agent_0"]).rename(home / ("0" * 64))
    with pytest.raises(CheckpointError, match="restore the folder"):
        await judged(session, run, [f"adapters:{tmp_path / 'team'}"], quiet)
    (home / ("0" * 64)).rename(tmp_path / "moved")
    home.rmdir()
    (tmp_path / "moved").rename(home)
    _, plain = await judged(session, run, ["trained", f"adapters:{tmp_path / 'team'}"], quiet)
    assert plain.returns == trained.returns, "an adapter's files may lie in AGENT/ itself"
    shutil.rmtree(home)
    with pytest.raises(ConfigError, match="holds 0 adapters; put exactly one"):
        await judged(session, run, [f"adapters:{tmp_path / 'team'}"], quiet)


async def test_a_team_from_another_run(world, table_config, table_session, quiet):
    """`adapters:DIR` takes what `potluck train` wrote, and never overwrites the run's own sets."""
    session = table_session(table_config)
    run = await train_with(session, False, quiet)
    longer = table_config.model_copy(update={"name": "trained", "rounds": 9})
    other = await train_with(table_session(longer), False, quiet)
    teams = ["trained", f"adapters:{other.path}", "frozen"]
    own, theirs, _ = await judged(session, run, teams, quiet)
    (inner,) = await judged(session, run, [f"adapters:{other.path / 'adapters'}"], quiet)
    assert inner.returns == theirs.returns
    assert theirs.team == "adapters/trained"
    rows = reader.read_part(run.path / "episodes" / "eval-trained.parquet").to_pylist()
    assert tuple(row["team_return"] for row in rows) == own.returns
    rows = reader.read_part(run.path / "episodes" / "eval-adapters-trained.parquet").to_pylist()
    assert set(json.loads(rows[0]["policies"]).values()) == set(other.checkpoints.last().adapters.values())
    with pytest.raises(ConfigError, match="two teams are named trained"):
        await judged(session, run, ["trained", "trained"], quiet)
    lines = [json.loads(line) for line in (other.path / "checkpoints.jsonl").read_text().splitlines()]
    strange = "".join(json.dumps(line | {"base_digest": "0" * 64}) + "\n" for line in lines)
    (other.path / "checkpoints.jsonl").write_text(strange)
    with pytest.raises(ConfigError, match="was trained on base 0000"):
        await judged(session, run, [f"adapters:{other.path}"], quiet)


async def test_another_interface_is_another_set(world, table_config, table_session, quiet):
    session = table_session(table_config)
    run = await train_with(session, False, quiet)
    checkpoint = run.checkpoints.last()
    (native,) = lineups(["frozen"], run, checkpoint, "native")
    assert native.set == "eval/native/frozen"
    assert [team.name for team in lineups([], run, checkpoint, "json")] == ["json/trained", "json/frozen"]
    with pytest.raises(ConfigError, match="uniform is a rule over menus"):
        lineups(["frozen", "uniform"], run, checkpoint, "json")


async def test_answers_in_json_are_recorded_with_what_they_came_to(
    world, table_config, table_session, quiet, monkeypatch
):
    async def speaking(*args):
        results = await world.play(*args)
        said = Spoken("let me think", "wait", "")
        for result in results:
            result.decisions[:] = [
                replace(d, spoken=said, letter="", index=0, logprob=math.nan, probabilities=())
                for d in result.decisions
            ]
        return results

    session = table_session(table_config)
    run = await train_with(session, False, quiet)
    monkeypatch.setattr(evaluation, "play", speaking)
    session = table_session(table_config.model_copy(update={"interface": "json"}))
    checkpoint = run.checkpoints.last()
    await judge(session, run, checkpoint, lineups(["trained"], run, checkpoint, "json"), quiet)
    rows = reader.read_part(run.path / "decisions" / "eval-json-trained.parquet").to_pylist()
    assert {(row["text"], row["logprob"], row["set"]) for row in rows} == {("let me think", None, "eval/json/trained")}
    assert {row["options"][row["index"]] for row in rows} == {"wait"}
    assert json.loads((run.path / "evaluation.json").read_text())["interface"] == "json"
    rows = reader.read_part(run.path / "decisions" / "round-000000.parquet").to_pylist()
    assert {row["text"] for row in rows} == {None}
