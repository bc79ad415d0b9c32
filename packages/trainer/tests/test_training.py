"""Rounds end to end without servers: learning, resuming, short rounds, refusals, full disks."""

import asyncio
import errno
import io
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from potluck.policy.v1.policy_service_pb2 import BackboneKind
from potluck_trainer import run_folder
from potluck_trainer.commands import train as train_command
from potluck_trainer.commands.eval import judge
from potluck_trainer.commands.train import resumed_config, train, train_with
from potluck_trainer.config import LearnerConfig
from potluck_trainer.errors import (
    AgreementError,
    CheckpointError,
    ConfigError,
    DiskFullError,
    NewerSchemaError,
    RecordError,
    TrainerError,
    WrongPolicyError,
)
from potluck_trainer.learners.base import always
from potluck_trainer.learners.table import TableTeam
from potluck_trainer.progress import Reporter
from potluck_trainer.records import reader, writer
from potluck_trainer.records.rows import Part, prompt_of
from potluck_trainer.records.schema import DESCRIPTIONS, TABLES
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.teams import lineups


class Interrupt(Exception):
    """Stands for whatever ends a process in mid-round."""


@pytest.fixture
def quiet():
    return Reporter(io.StringIO())


def state_of(run_dir: Path):
    """Everything that training left, byte for byte, but for measured times and the names of runs."""
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for key in ("acting_s", "learning_s", "decisions_per_s"):
            line.pop(key)
        for numbers in line["agents"].values():
            numbers.pop("update_s", None)
    tables = {
        str(path.relative_to(run_dir)): [
            {k: v for k, v in row.items() if k != "run"} for row in pq.read_table(path).to_pylist()
        ]
        for table in TABLES
        for path in sorted((run_dir / table).glob("*.parquet"))
    }
    return lines, tables, (run_dir / "checkpoints.jsonl").read_text(), sorted(os.listdir(run_dir / "adapters"))


async def judged(session, run, names, quiet):
    checkpoint = run.checkpoints.best()
    return await judge(session, run, checkpoint, lineups(names, run, checkpoint), quiet)


async def interrupted(session, world, at, quiet):
    """Trains until the world breaks in its `at`-th play."""

    async def breaking(count):
        if count == at:
            raise Interrupt

    world.plays, world.on_play = 0, breaking
    with pytest.raises(Interrupt):
        await train_with(session, False, quiet)
    world.on_play = None


async def test_it_learns_and_a_learning_rate_of_zero_does_not(world, table_config, table_session, quiet):
    def gain(run):
        means = [line["return_mean"] for line in run.metrics()]
        return np.mean(means[-5:]) - np.mean(means[:5])

    config = table_config.model_copy(update={"rounds": 30})
    learned = gain(await train_with(table_session(config), False, quiet))
    still = config.model_copy(update={"learner": config.learner.model_copy(update={"lr": 0.0}), "name": "still"})
    control = gain(await train_with(table_session(still), False, quiet))
    assert learned > 3.0
    assert abs(control) < 1.5


async def test_resumed_equals_uninterrupted_with_a_table(world, table_config, table_session, quiet):
    whole = await train_with(table_session(), False, quiet)
    config = table_config.model_copy(update={"name": "broken"})
    await interrupted(table_session(config), world, 4, quiet)
    resumed = resumed_config(config.run_dir, None, "", "")
    again = await train_with(table_session(resumed), True, quiet)
    assert state_of(again.path) == state_of(whole.path)


async def test_resumed_equals_uninterrupted_with_a_language_model(
    world, table_config, make_session, fake_policy, base_digest, agents, tmp_path, quiet, monkeypatch
):
    torch = pytest.importorskip("torch")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from potluck_trainer.learners.lora import LoraTeam

    world.steps = 5
    torch.manual_seed(0)
    base = tmp_path / "base"
    Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
            head_dim=16, intermediate_size=16, tie_word_embeddings=True, initializer_range=0.2,
        )
    ).save_pretrained(base)  # fmt: skip
    learner = LearnerConfig(lr=1e-2, rank=2, beta=0.05, minibatch=10)
    config = table_config.model_copy(
        update={"backbone": "small", "learner": learner, "rounds": 3, "episodes_per_round": 3, "temperature": 0.9}
    )

    def team(names, seed):
        return LoraTeam(base, names, base_digest, learner, 0.9, seed)

    async def make_team(session):
        return team(agents, session.config.seed)

    monkeypatch.setattr(train_command, "make_team", make_team)

    def session(config):
        return make_session(config, fake_policy(team(("scorer",), 0)), BackboneKind.BACKBONE_KIND_CAUSAL_LM)

    whole = await train_with(session(config), False, quiet)
    broken = config.model_copy(update={"name": "broken"})
    await interrupted(session(broken), world, 3, quiet)
    again = await train_with(session(resumed_config(broken.run_dir, None, "", "")), True, quiet)
    assert state_of(again.path) == state_of(whole.path)
    assert max(line["agreement_max"] for line in whole.metrics() if line["agreement_max"] is not None) < 1e-5


async def test_learning_in_threads_or_one_after_another_is_the_same(world, table_config, table_session, quiet):
    one = await train_with(table_session(), False, quiet)
    serial = table_config.model_copy(
        update={"name": "serial", "learner": table_config.learner.model_copy(update={"parallel": False})}
    )
    assert state_of((await train_with(table_session(serial), False, quiet)).path) == state_of(one.path)


async def test_an_interrupted_round_leaves_nothing_of_itself(world, table_config, table_session, quiet, monkeypatch):
    """Killed after sealing and before the checkpoint line: the round is thrown away whole."""
    session = table_session()
    saves = []
    original = run_folder.CheckpointStore.save

    def breaking(self, *args):
        saves.append(args)
        if len(saves) == 4:
            raise Interrupt
        return original(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(run_folder.CheckpointStore, "save", breaking)
        with pytest.raises(Interrupt):
            await train_with(session, False, quiet)
    run = RunFolder.open(table_config.run_dir)
    assert (run.path / "decisions" / "round-000002.parquet").exists()
    assert run.checkpoints.last().round == 2
    again = await train_with(table_session(resumed_config(run.path, None, "", "")), True, quiet)
    whole = await train_with(table_session(table_config.model_copy(update={"name": "whole"})), False, quiet)
    assert state_of(again.path) == state_of(whole.path)


async def test_more_rounds_go_on_from_a_finished_run(world, table_config, table_session, quiet):
    short = await train_with(table_session(table_config.model_copy(update={"rounds": 2})), False, quiet)
    longer = resumed_config(short.path, 4, "", "")
    again = await train_with(table_session(longer), True, quiet)
    assert [line["round"] for line in again.metrics()] == [0, 1, 2, 3]


async def test_a_lost_episode_makes_a_short_round(world, table_config, table_session, quiet):
    world.lose = {"train-000001-002"}
    run = await train_with(table_session(table_config.model_copy(update={"rounds": 3})), False, quiet)
    lines = run.metrics()
    assert [(line["episodes"], line["lost"]) for line in lines] == [(6, 0), (5, 1), (6, 0)]
    rows = reader.read_part(run.path / "episodes" / "round-000001.parquet").to_pylist()
    assert [row["member"] for row in rows] == [0, 1, 3, 4, 5]
    assert lines[1]["return_mean"] == pytest.approx(np.mean([row["team_return"] for row in rows]))


async def test_a_round_without_any_episode_is_an_error(world, table_config, table_session, quiet):
    world.lose = {f"train-000000-{k:03d}" for k in range(6)}
    with pytest.raises(TrainerError, match="every episode of round 0"):
        await train_with(table_session(), False, quiet)


async def test_no_variance_no_update_and_it_is_counted(world, table_config, table_session, quiet):
    config = table_config.model_copy(update={"episodes_per_round": 1, "rounds": 2})
    run = await train_with(table_session(config), False, quiet)
    assert [line["skipped"] for line in run.metrics()] == ["single_member"] * 2
    assert len(set(run.checkpoints.last().adapters.values())) == 1
    rows = reader.read_part(run.path / "decisions" / "round-000001.parquet").to_pylist()
    assert {row["advantage"] for row in rows} == {None}


async def test_disagreement_stops_the_run(world, table_session, quiet):
    session = table_session()
    session.policy.distort = 0.1
    with pytest.raises(AgreementError):
        await train_with(session, False, quiet)
    assert RunFolder.open(session.config.run_dir).checkpoints.last().round == 0


async def test_answers_of_other_weights_are_refused(world, table_session, quiet, monkeypatch):
    session = table_session()
    original = world._decide

    def stale(*args):
        record, hit = original(*args)
        object.__setattr__(record, "adapter_digest", "")
        return record, hit

    monkeypatch.setattr(world, "_decide", stale)
    with pytest.raises(WrongPolicyError, match="the bare base"):
        await train_with(session, False, quiet)


async def test_leases_do_not_pile_up(world, table_session, quiet):
    session = table_session()
    during = []

    async def count(plays):
        during.append(len(session.policy.leases))

    world.on_play = count
    await train_with(session, False, quiet)
    assert max(during) == 2
    assert session.policy.leases == {}


async def test_a_full_disk_keeps_the_round_and_tries_again(world, table_config, table_session, quiet, monkeypatch):
    """No space for a while: nothing is lost, and the run is the one it would have been."""
    whole = await train_with(table_session(), False, quiet)
    failures = []
    original = os.fsync

    def full(descriptor):
        if len(failures) < 3 and "round-000002" in os.readlink(f"/proc/self/fd/{descriptor}"):
            failures.append(descriptor)
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(writer.time, "sleep", lambda seconds: None)
    run = await train_with(table_session(table_config.model_copy(update={"name": "full"})), False, quiet)
    assert len(failures) == 3
    assert state_of(run.path) == state_of(whole.path)
    assert not list(run.path.rglob(".*.tmp"))


def test_a_disk_that_stays_full_is_a_typed_error(tmp_path, monkeypatch):
    records = writer.RecordWriter(tmp_path)
    records.seal(Part("round-000000"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DiskFullError, match="free space on that disk"):
            records.seal(Part("round-000001"))
        assert records.pending == ("round-000001",)
        with pytest.raises(DiskFullError):
            writer.append_line(tmp_path / "metrics.jsonl", "{}")
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")} == before
    records.flush()
    assert records.pending == ()
    assert len(list(tmp_path.rglob("round-000001.parquet"))) == 3


def test_other_write_errors_say_what_to_check(tmp_path):
    (tmp_path / "decisions").write_text("a file where a folder should be")
    with pytest.raises(RecordError, match="check the folder"):
        writer.RecordWriter(tmp_path).seal(Part("round-000000"))


async def test_a_newer_schema_is_refused(world, table_session, quiet):
    run = await train_with(table_session(), False, quiet)
    part = run.path / "episodes" / "round-000000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.replace_schema_metadata({"schema_version": "2"}), part)
    with pytest.raises(NewerSchemaError, match="newer Potluck"):
        reader.read_part(part)
    facts = run.facts() | {"schema_version": 2}
    (run.path / "versions.json").write_text(json.dumps(facts))
    with pytest.raises(NewerSchemaError):
        RunFolder.open(run.path)


async def test_records_rebuild_the_prompt_and_have_described_columns(world, table_session, quiet):
    run = await train_with(table_session(), False, quiet)
    texts = reader.texts(run.path)
    row = reader.read_part(run.path / "decisions" / "round-000003.parquet").to_pylist()[0]
    prompt = prompt_of(row, texts)
    assert prompt.rules == "lanterns"
    assert prompt.observation == f"see {prompt.state_key}"
    assert [item.word for item in prompt.items] == row["words"]
    assert prompt.items[row["index"]].letter == row["letter"]
    assert row["label_mass"] is None
    assert sum(row["probabilities"]) == pytest.approx(1)
    assert row["advantage"] is not None
    named = {name for schema in TABLES.values() for name in schema.names}
    assert set(DESCRIPTIONS) <= named
    assert len(texts) == 4


async def test_changed_settings_cannot_resume(world, table_config, table_session, quiet):
    run = await train_with(table_session(), False, quiet)
    changed = table_config.model_copy(update={"temperature": 0.5})
    with pytest.raises(ConfigError, match="temperature"):
        await train_with(table_session(changed), True, quiet)
    with pytest.raises(ConfigError, match="--resume"):
        await train_with(table_session(), False, quiet)
    assert run.checkpoints.last().round == 6


async def test_two_writers_are_kept_apart(world, table_config, table_session, quiet):
    with RunFolder(table_config.run_dir).locked(), pytest.raises(RecordError, match="another process"):
        await train(table_config, quiet)


async def test_damaged_lines_and_settings_are_named(world, table_config, table_session, quiet):
    run = await train_with(table_session(), False, quiet)
    lines = (run.path / "checkpoints.jsonl").read_bytes()
    (run.path / "checkpoints.jsonl").write_bytes(b"{torn" + lines)
    with pytest.raises(RecordError, match="damaged at line 1"):
        run.checkpoints.last()
    (run.path / "checkpoints.jsonl").write_bytes(b'{"round": 1}\n' + lines)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        run.checkpoints.last()
    (run.path / "config.json").write_text("{")
    with pytest.raises(RecordError, match=r"cannot read .*config.json"):
        run.config()
    (run.path / "versions.json").write_text("")
    with pytest.raises(RecordError, match=r"cannot read .*versions.json"):
        RunFolder.open(run.path)


async def test_damaged_checkpoints_are_refused(world, table_config, table_session, quiet):
    run = await train_with(table_session(), False, quiet)
    state = next((run.path / "optimisers" / "round-000006").iterdir())
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="damaged"):
        await train_with(table_session(), True, quiet)
    digest = run.checkpoints.last().adapters["agent_0"]
    weights = run.path / "adapters" / digest / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="restore the folder"):
        run.checkpoints.load_adapter("agent_0", digest, "b" * 64)


async def test_evaluation_compares_teams_on_the_same_seeds(world, table_config, table_session, quiet):
    config = table_config.model_copy(update={"rounds": 30})
    session = table_session(config)
    run = await train_with(session, False, quiet)
    judgements = await judged(session, run, ["trained", "frozen", "uniform"], quiet)
    trained, frozen, uniform = judgements
    assert trained.interval.low > frozen.interval.high
    assert frozen.returns == uniform.returns
    summary = json.loads((run.path / "evaluation.json").read_text())
    assert summary["differences"]["trained - frozen"]["low"] > 0
    rows = reader.read_part(run.path / "episodes" / "eval-trained.parquet").to_pylist()
    assert [row["seed"] for row in rows] == list(config.evaluation.seeds)
    assert {row["set"] for row in rows} == {"eval/trained"}
    assert {row["round"] for row in rows} == {30}
    again = await judged(session, run, ["trained"], quiet)
    assert again[0].returns == trained.returns


async def test_solo_teams_leave_the_others_to_the_env_server(world, table_session, quiet):
    session = table_session()
    run = await train_with(session, False, quiet)
    (solo,) = await judged(session, run, ["solo/agent_1"], quiet)
    row = reader.read_part(run.path / "episodes" / "eval-solo-agent_1.parquet").to_pylist()[0]
    assert json.loads(row["policies"])["agent_0"] == "noop"
    assert len(solo.returns) == 6
    with pytest.raises(ConfigError, match="known: trained"):
        await judged(session, run, ["tained"], quiet)


async def test_greedy_evaluation_says_so(world, table_config, table_session, quiet):
    evaluation = table_config.evaluation.model_copy(update={"greedy": True})
    session = table_session(table_config.model_copy(update={"evaluation": evaluation}))
    run = await train_with(session, False, quiet)
    await judged(session, run, ["frozen"], quiet)
    rows = reader.read_part(run.path / "episodes" / "eval-frozen.parquet").to_pylist()
    assert {row["temperature"] for row in rows} == {0.0}
    assert json.loads((run.path / "evaluation.json").read_text())["temperature"] == 0.0
    rows = reader.read_part(run.path / "episodes" / "round-000001.parquet").to_pylist()
    assert {row["temperature"] for row in rows} == {1.0}


async def test_the_best_checkpoint_is_chosen_on_validation_seeds(world, table_config, table_session, quiet):
    evaluation = table_config.evaluation.model_copy(update={"every": 2})
    run = await train_with(table_session(table_config.model_copy(update={"evaluation": evaluation})), False, quiet)
    judged = {c.round: c.validation for c in run.checkpoints.all() if c.validation is not None}
    assert sorted(judged) == [2, 4, 6]
    best = run.checkpoints.best()
    assert best.validation == max(judged.values())
    played = {path.stem for path in (run.path / "episodes").glob("*.parquet")}
    assert not any(stem.startswith("validate") for stem in played)


async def test_cancelling_leaves_a_resumable_run(world, table_config, table_session, quiet):
    """What Ctrl-C does: the task is cancelled in the middle of a round."""
    reached = asyncio.Event()

    async def hang(count):
        if count == 3:
            reached.set()
            await asyncio.Event().wait()

    world.on_play = hang
    task = asyncio.create_task(train_with(table_session(), False, quiet))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.on_play = None
    again = await train_with(table_session(resumed_config(table_config.run_dir, None, "", "")), True, quiet)
    whole = await train_with(table_session(table_config.model_copy(update={"name": "whole"})), False, quiet)
    assert state_of(again.path) == state_of(whole.path)


async def test_cancelling_in_the_middle_of_an_update(world, table_config, table_session, quiet, monkeypatch):
    """Ctrl-C is heard between two microbatches; whatever the update had done by then, the resumed run is the same."""
    learning = threading.Event()
    original = TableTeam.update

    def endless(self, agent, samples, round_number, go_on=always):
        report = original(self, agent, samples, round_number, go_on)
        if round_number == 2:
            learning.set()
            while True:
                go_on()
                time.sleep(0.01)
        return report

    with monkeypatch.context() as patched:
        patched.setattr(TableTeam, "update", endless)
        task = asyncio.create_task(train_with(table_session(), False, quiet))
        await asyncio.to_thread(learning.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
    assert RunFolder.open(table_config.run_dir).checkpoints.last().round == 2
    again = await train_with(table_session(resumed_config(table_config.run_dir, None, "", "")), True, quiet)
    whole = await train_with(table_session(table_config.model_copy(update={"name": "whole"})), False, quiet)
    assert state_of(again.path) == state_of(whole.path)


async def test_tracing_shows_the_round_and_changes_no_byte(world, table_config, table_session, quiet, monkeypatch):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from potluck.telemetry import context

    without = await train_with(table_session(), False, quiet)
    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(context, "_TRACER", provider.get_tracer("potluck"))
    traced = await train_with(table_session(table_config.model_copy(update={"name": "traced"})), False, quiet)
    assert state_of(traced.path) == state_of(without.path)
    spans = exporter.get_finished_spans()
    rounds = {span.context.span_id: span for span in spans if span.name == "round"}
    assert len(rounds) == 6
    assert all(span.parent is None for span in rounds.values())
    learned = [span for span in spans if span.name == "learner_step"]
    assert len(learned) == 2 * sum(line["skipped"] is None for line in traced.metrics())
    assert all(span.parent.span_id in rounds for span in learned)
