"""Burn-in folders: cut anywhere, finished later, shared among processes, always the same records."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from potluck_optionlib.burnin import Burnin, BurninPlan, Row, load, play_folder, run
from potluck_optionlib.burnin.errors import (
    BurninBusyError,
    BurninIncompleteError,
    BurninMismatchError,
    BurninStorageError,
    BurninWorkerError,
    FeatureError,
)
from potluck_optionlib.burnin.records import Ledger, episode_digests
from potluck_optionlib.errors import BurninFormatError
from potluck_optionlib.game import Instance

PLAN = BurninPlan(solo_episodes=12, team_episodes=8, seed=1, horizon=20)


@pytest.fixture(scope="module")
def whole(toy) -> Burnin:
    return run(toy.ToyGame(), PLAN)


@pytest.fixture
def played(toy, tmp_path) -> Path:
    folder = tmp_path / "b"
    play_folder(toy.ToyGame, PLAN, folder, shard_episodes=6)
    return folder


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("episodes-*.parquet"))


@pytest.mark.parametrize("size", [1, 6, 7, 20, 50])
def test_the_records_do_not_depend_on_how_they_are_cut(toy, tmp_path, whole, size) -> None:
    result = play_folder(toy.ToyGame, PLAN, tmp_path, shard_episodes=size)
    assert result == whole == load(tmp_path)
    assert list(load(tmp_path).rows()) == list(whole.rows())
    assert load(tmp_path).tallies() == whole.tallies()
    assert len(shards(tmp_path)) == -(-20 // size)


def test_several_processes_give_the_same_records(toy_module, tmp_path, whole) -> None:
    seen = []
    result = play_folder(toy_module.ToyGame, PLAN, tmp_path, workers=2, shard_episodes=3, progress=seen.append)
    assert result == whole == load(tmp_path)
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert (seen[-1].done, seen[-1].decisions) == (20, whole.records)


def test_a_finished_folder_is_not_played_again(toy, played, whole) -> None:
    before = {path: path.stat().st_mtime_ns for path in shards(played)}
    seen = []
    assert play_folder(toy.ToyGame, PLAN, played, progress=seen.append) == whole
    assert before == {path: path.stat().st_mtime_ns for path in shards(played)}
    assert (seen[-1].done, seen[-1].found, seen[-1].decisions) == (20, 20, 0)


def test_a_run_that_stopped_goes_on_where_it_was(toy, tmp_path, whole) -> None:
    def interrupt(now) -> None:
        if now.done == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_folder(toy.ToyGame, PLAN, tmp_path, shard_episodes=6, progress=interrupt)
    assert len(shards(tmp_path)) == 2
    with pytest.raises(BurninIncompleteError, match=r"2 of 4 shards .* again to finish"):
        load(tmp_path)
    seen, lines = [], []
    result = play_folder(toy.ToyGame, PLAN, tmp_path, shard_episodes=9, progress=seen.append, report=lines.append)
    assert result == whole == load(tmp_path)
    assert seen[0].found == 12
    assert lines == []


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_shard_that_was_cut_is_reported_and_played_again(toy, played, whole, keep) -> None:
    victim = shards(played)[1]
    victim.write_bytes(victim.read_bytes()[:keep])
    with pytest.raises(BurninFormatError, match="was cut"):
        load(played)
    lines = []
    assert play_folder(toy.ToyGame, PLAN, played, report=lines.append) == whole == load(played)
    assert [victim.name in line and "played again" in line for line in lines] == [True]


def test_leftovers_are_reported_and_removed(toy, played, whole) -> None:
    victim = shards(played)[0]
    rest = victim.rename(victim.with_name(victim.name + ".part"))
    with pytest.raises(BurninIncompleteError):
        load(played)
    lines = []
    assert play_folder(toy.ToyGame, PLAN, played, report=lines.append) == whole
    assert not rest.exists()
    assert "left over" in lines[0]


def test_a_shard_under_another_name_is_played_again(toy, played, whole) -> None:
    first, second, *_ = shards(played)
    shutil.copy(first, second)
    with pytest.raises(BurninFormatError, match="belongs to another burn-in"):
        load(played)
    lines = []
    assert play_folder(toy.ToyGame, PLAN, played, report=lines.append) == whole == load(played)
    assert "other records than its name says" in lines[0]


def test_a_single_shard_is_no_burnin(played) -> None:
    with pytest.raises(BurninIncompleteError, match="episodes 6 to 11 only"):
        load(shards(played)[1])


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        (BurninPlan(12, 9, 1, 20), "team_episodes 8 != 9"),
        (BurninPlan(12, 8, 2, 20), "seed 1 != 2"),
        (BurninPlan(12, 8, 1, 21), "horizon 20 != 21"),
    ],
)
def test_another_plan_in_the_same_folder_is_refused(toy, played, whole, plan, field) -> None:
    with pytest.raises(BurninMismatchError, match=f"{field}.*another folder"):
        play_folder(toy.ToyGame, plan, played)
    assert load(played) == whole


def test_other_contracts_in_the_same_folder_are_refused(toy, played) -> None:
    def other():
        game = toy.ToyGame()
        game.contracts_digest = "d" * 64
        return game

    with pytest.raises(BurninMismatchError, match="contracts_digest"):
        play_folder(other, PLAN, played)


def test_shards_of_other_contracts_are_never_mixed_in(toy, tmp_path, played, whole) -> None:
    def other():
        game = toy.ToyGame()
        game.contracts_digest = "d" * 64
        return game

    play_folder(other, PLAN, tmp_path / "other", shard_episodes=6)
    victim = shards(played)[2]
    shutil.copy(tmp_path / "other" / victim.name, victim)
    with pytest.raises(BurninFormatError, match="another burn-in"):
        load(played)
    lines = []
    assert play_folder(toy.ToyGame, PLAN, played, report=lines.append) == whole
    assert victim.name in lines[0]


def test_foreign_shards_and_missing_manifests_are_refused(toy, played) -> None:
    stranger = shutil.copy(shards(played)[0], played / "episodes-000000-000099.parquet")
    with pytest.raises(BurninMismatchError, match="no shard of this burn-in"):
        play_folder(toy.ToyGame, PLAN, played)
    os.remove(stranger)
    (played / "burnin.json").unlink()
    with pytest.raises(BurninMismatchError, match=r"no burnin\.json"):
        play_folder(toy.ToyGame, PLAN, played)
    with pytest.raises(BurninFormatError, match="no burn-in folder"):
        load(played)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("schema_version", 1, "schema version 1, this program reads 2"),
        ("digest", "0" * 64, "changed after"),
        ("shard_episodes", 0, "shard_episodes must be"),
        ("plan", {"seed": 1, "speed": 9}, "does not say where"),
        ("plan", {"horizon": "a"}, "horizon must be a whole number"),
        ("contracts_digest", None, "contracts_digest must be text, not None"),
        ("contracts_digest", 7, "contracts_digest must be text, not 7"),
        ("game", [], "game must be text"),
        ("solo_only", "ring", "solo_only must be a list of names"),
        ("solo_only", [3], "solo_only must be a list of names"),
        ("records", 561, "records is 561, the shards hold 560"),
        ("records", 560.0, r"records is 560\.0, the shards hold"),
        ("records", None, "records is None, the shards hold"),
    ],
)
def test_an_edited_manifest_is_refused(played, field, value, complaint) -> None:
    path = played / "burnin.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(BurninFormatError, match=complaint):
        load(played)


def reseal(path: Path, table: pa.Table, **update: object) -> None:
    """Writes a shard as somebody would who knows its form; `update` goes into what it says of itself."""
    meta = json.loads(pq.read_schema(path).metadata[b"potluck"])
    meta |= {"records": table.num_rows, **update}
    pq.write_table(table.replace_schema_metadata({b"potluck": json.dumps(meta)}), path)


def rows_of(episode: int, count: int) -> pa.Table:
    ledger = Ledger()
    row = Row(0, 0, Instance("grab", "(0,0)"), {"held": "ball", "hour": "odd"}, "success", None, None)
    ledger.add(episode, episode < PLAN.solo_episodes, [row] * count)
    return ledger.table()


@pytest.mark.parametrize("episode", [-1, 3, 999_999])
@pytest.mark.parametrize("place", ["behind", "before"])
def test_rows_that_the_digest_does_not_cover_are_refused(played, episode, place) -> None:
    victim = shards(played)[-1]
    parts = [pq.read_table(victim).replace_schema_metadata(None), rows_of(episode, 7)]
    reseal(victim, pa.concat_tables(parts if place == "behind" else parts[::-1]).unify_dictionaries())
    with pytest.raises(BurninFormatError, match="column 'episode' has rows outside of episodes 18 to 19"):
        load(played)
    with pytest.raises(BurninFormatError, match="episode column"):
        episode_digests(pa.concat_tables(parts).unify_dictionaries(), 18, 20)


def test_a_setting_that_the_plan_does_not_give_is_refused(played) -> None:
    victim = shards(played)[0]
    table = pq.read_table(victim)
    flipped = table.set_column(1, "solo", pa.array([False] * table.num_rows))
    digest = hashlib.sha256(b"".join(episode_digests(flipped, 0, 6))).hexdigest()
    reseal(victim, flipped, sha256=digest)
    with pytest.raises(BurninFormatError, match="column 'solo' is not what the plan says"):
        load(played)


def test_rows_without_a_value_are_refused(played) -> None:
    victim = shards(played)[0]
    table = pq.read_table(victim)
    reseal(victim, table.set_column(2, "step", pa.nulls(table.num_rows, pa.int32())))
    with pytest.raises(BurninFormatError, match="column 'step' has rows without a value"):
        load(played)


@pytest.mark.parametrize("episodes", [[0, 99], [-1, 6], [0.0, 6], ["0", 6]])
def test_episodes_outside_of_the_plan_are_refused(played, episodes) -> None:
    victim = shards(played)[0]
    reseal(victim, pq.read_table(victim), episodes=episodes)
    with pytest.raises(BurninFormatError, match="are not in its plan"):
        load(played)


def test_a_full_disk_keeps_what_was_sealed(toy, tmp_path, whole, monkeypatch) -> None:
    flush, calls = os.fsync, []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BurninStorageError, match=r"No space left.*make room and run"):
        play_folder(toy.ToyGame, PLAN, tmp_path, shard_episodes=6)
    assert len(shards(tmp_path)) == 2
    assert not list(tmp_path.glob("*.part"))
    monkeypatch.undo()
    seen = []
    assert play_folder(toy.ToyGame, PLAN, tmp_path, progress=seen.append) == whole
    assert seen[0].found == 12


def test_two_runs_in_one_folder_do_not_meet(toy, played) -> None:
    with (played / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BurninBusyError, match="at work"):
            play_folder(toy.ToyGame, PLAN, played)
    play_folder(toy.ToyGame, PLAN, played)


def test_a_worker_that_dies_is_an_error_and_the_folder_can_be_finished(toy_module, tmp_path, whole) -> None:
    with pytest.raises(BurninWorkerError, match="run the same command again"):
        play_folder(toy_module.DyingGame, PLAN, tmp_path, workers=2, shard_episodes=6)
    assert play_folder(toy_module.ToyGame, PLAN, tmp_path) == whole


def test_errors_come_back_from_workers_as_they_are(toy_module, tmp_path) -> None:
    with pytest.raises(FeatureError, match=r"'ring': feature 'hour' is not a string \(NaN\)"):
        play_folder(toy_module.SpoiltGame, PLAN, tmp_path, workers=2, shard_episodes=6)
    assert shards(tmp_path)


SCRIPT = """
import sys
from pathlib import Path
from potluck_optionlib.burnin import BurninPlan, play_folder
import toy
if __name__ == "__main__":
    plan, folder, show = BurninPlan(400, 400, 1, 400), Path(sys.argv[1]), lambda now: print(now.done, flush=True)
    play_folder(toy.ToyGame, plan, folder, workers=2, shard_episodes=20, progress=show)
"""


@pytest.fixture
def playing(toy_module, tmp_path) -> Iterator[subprocess.Popen[str]]:
    """A long burn-in into "b" by two workers, with its first shards sealed."""
    script = tmp_path / "play.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "b")],
        env={**os.environ, "PYTHONPATH": str(Path(toy_module.__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    assert int(process.stdout.readline()) > 0
    yield process
    process.kill()
    process.communicate()


def test_workers_do_not_outlive_a_parent_that_was_killed(playing) -> None:
    children = [int(pid) for pid in Path(f"/proc/{playing.pid}/task/{playing.pid}/children").read_text().split()]
    assert len(children) >= 2
    assert all(Path(f"/proc/{pid}").exists() for pid in children)
    playing.kill()
    playing.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def test_ctrl_c_stops_workers_soon_and_keeps_their_shards(playing, tmp_path) -> None:
    process, folder = playing, tmp_path / "b"
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in complaint
    kept = shards(folder)
    assert 0 < len(kept) < 40
    assert not list(folder.glob("*.part"))
    time.sleep(1)
    assert shards(folder) == kept
