import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from potluck_audit.errors import CorruptRecords, NewerSchema, UnknownRun
from potluck_audit.records import load_run
from potluck_audit.records.episode import seat_order


def test_round_trip(tmp_path, write_run, episode, tape):
    one = tape()
    one.soup(1, "agent_0", "agent_1")
    one.option("agent_0", "pick_onion", 4)
    write_run(tmp_path, [episode(one), episode(set="train", round=0, team_return=1.0)])
    run = load_run(tmp_path)
    assert run.sets == ("train", "eval/trained")
    [found] = run.of("eval/trained")
    assert found.agents == ("agent_0", "agent_1")
    assert found.team_return == 1.0
    assert found.seed == 10000
    assert len(found.events) == 18
    assert found.options[0].option == "pick_onion"
    assert found.temperature == 1.0
    assert not run.greedy


def test_options_come_from_the_decisions_where_the_environment_recorded_none(tmp_path, write_run, episode):
    row = {
        "schema_version": 1, "set": "eval/trained", "episode_id": "e10000", "agent": "agent_0", "decision": 0,
        "step": 0, "options": ["wait", "deliver"], "targets": ["", "(3,4)"], "letter": "B", "index": 1,
        "probabilities": [0.25, 0.75], "outcome": "success", "duration": 6,
    }  # fmt: skip
    write_run(tmp_path, [episode()], decisions=[row])
    [found] = load_run(tmp_path).of("eval/trained")
    assert [(o.option, o.target, o.duration) for o in found.options] == [("deliver", "(3,4)", 6)]


def test_no_run(tmp_path):
    with pytest.raises(UnknownRun, match="potluck train"):
        load_run(tmp_path / "nowhere")
    (tmp_path / "episodes").mkdir()
    with pytest.raises(UnknownRun, match="no episodes yet"):
        load_run(tmp_path)


def test_an_unknown_set_names_the_known_ones(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()])
    with pytest.raises(UnknownRun, match="it has eval/trained"):
        load_run(tmp_path, ["eval/trainde"])


def test_a_newer_schema_is_refused(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()], version=2)
    with pytest.raises(NewerSchema, match=r"eval-trained.parquet has schema 2.*upgrade"):
        load_run(tmp_path)


def test_a_corrupt_part_is_named(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()])
    (tmp_path / "episodes" / "eval-frozen.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(CorruptRecords, match=r"eval-frozen.parquet cannot be read") as caught:
        load_run(tmp_path)
    assert caught.value.metadata["file"] == "eval-frozen.parquet"


def test_a_missing_column_is_named(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()])
    part = tmp_path / "episodes" / "eval-trained.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["seed"]), part)
    with pytest.raises(CorruptRecords, match="seed"):
        load_run(tmp_path)


def test_a_corrupt_config_is_named(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()])
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CorruptRecords, match=r"config.json"):
        load_run(tmp_path)


def test_unsealed_parts_and_unknown_columns_are_passed_over(tmp_path, write_run, episode):
    write_run(tmp_path, [episode()])
    (tmp_path / "episodes" / ".eval-frozen.parquet.tmp").write_bytes(b"half")
    (tmp_path / "episodes" / ".eval-frozen.parquet").write_bytes(b"half")
    part = tmp_path / "episodes" / "eval-trained.parquet"
    table = pq.read_table(part)
    pq.write_table(table.append_column("later", pa.array([1])), part)
    assert len(load_run(tmp_path).episodes) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_return_that_is_no_number_is_missing_and_not_zero(tmp_path, write_run, episode, value):
    write_run(tmp_path, [episode(team_return=value), episode(seed=10001, team_return=0.0)])
    assert [e.team_return for e in load_run(tmp_path).episodes] == [None, 0.0]


def test_seats_are_in_order_of_number():
    assert sorted(["agent_10", "agent_2", "agent_0"], key=seat_order) == ["agent_0", "agent_2", "agent_10"]
