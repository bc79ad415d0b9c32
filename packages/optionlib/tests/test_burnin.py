"""Burn-in in one process: determinism, solo episodes, records, digests, single files."""

import dataclasses
import hashlib

import pyarrow.parquet as pq
import pytest

from potluck_optionlib import burnin, games
from potluck_optionlib.burnin import Burnin, BurninPlan, Record
from potluck_optionlib.burnin.errors import BurninPlanError
from potluck_optionlib.errors import BurninFormatError, ContractMismatchError, UnknownGameError

PLAN = BurninPlan(solo_episodes=24, team_episodes=6, seed=1, horizon=20)


def test_the_same_plan_gives_the_same_records(toy) -> None:
    first, second = burnin.run(toy.ToyGame(), PLAN), burnin.run(toy.ToyGame(), PLAN)
    assert first == second
    assert first.digest == second.digest
    assert first != burnin.run(toy.ToyGame(), BurninPlan(24, 6, 2, 20))


def test_the_stream_of_plays_is_the_one_that_shipped_guards_were_mined_from(toy) -> None:
    rows = list(burnin.run(toy.ToyGame(), PLAN).rows())
    plays = [(r.episode, r.step, r.agent, r.option, r.target, r.outcome) for r in rows]
    assert len(plays) == 720
    digest = hashlib.sha256(repr(plays).encode()).hexdigest()
    assert digest == "8cb8a5e8bdba278b5273fd5cf5a6b0f7885502790a267ebd09a095cdf8ccebf3"


def test_solo_episodes_take_seats_in_turn_and_partners_are_noops(toy) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    actors = {(r.episode, r.agent) for r in result.rows() if r.solo}
    assert actors == {(episode, episode % 2) for episode in range(24)}
    assert {r.agent for r in result.rows() if not r.solo} == {0, 1}
    assert all(r.option != "noop" for r in result.rows())


def test_unguarded_candidates_are_played_even_where_they_fail(toy) -> None:
    outcomes = {(r.option, r.outcome) for r in burnin.run(toy.ToyGame(), PLAN).rows()}
    assert {("toss", "explicit:NothingHeld"), ("grab", "effect_fail"), ("grab", "success")} <= outcomes


def test_progress_counts_episodes(toy) -> None:
    seen = []
    burnin.run(toy.ToyGame(), PLAN, lambda done, total: seen.append((done, total)))
    assert seen == [(done, 30) for done in range(1, 31)]


def test_tallies_count_every_record_once_and_are_sorted(toy) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    tallies = result.tallies()
    assert sum(tally.count for tally in tallies) == result.records == 720
    assert [(t.option, str(t.solo)) for t in tallies] == sorted((t.option, str(t.solo)) for t in tallies)
    expected = sum(
        r.option == "grab" and r.solo and r.features == {"held": "none", "hour": "odd"} for r in result.rows()
    )
    found = [t for t in tallies if t.option == "grab" and t.solo and t.features == {"held": "none", "hour": "odd"}]
    assert sum(t.count for t in found) == expected > 0


RECORD = Record(0, True, 3, 0, "grab", "(0,0)", {"held": "none"}, "success", True, False)


def made(*records: Record, **changes: object) -> Burnin:
    whole = Burnin.of("toy/hands", "c" * 64, ("ring",), BurninPlan(1, 1, 0, 9), records)
    return dataclasses.replace(whole, **changes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("solo", False),
        ("step", 4),
        ("agent", 1),
        ("option", "toss"),
        ("target", "(1,0)"),
        ("features", {"held": "ball"}),
        ("outcome", "timeout"),
        ("own_changed", None),
        ("changed", True),
    ],
)
def test_the_digest_covers_every_column(field: str, value: object) -> None:
    assert made(RECORD).digest == made(RECORD).digest
    assert made(RECORD._replace(**{field: value})).digest != made(RECORD).digest


@pytest.mark.parametrize(
    "changes",
    [{"game": "toy/feet"}, {"contracts_digest": "d" * 64}, {"solo_only": ()}, {"plan": BurninPlan(1, 1, 1, 9)}],
)
def test_the_digest_covers_where_records_come_from(changes: dict[str, object]) -> None:
    assert made(RECORD, **changes).digest != made(RECORD).digest


def test_the_digest_tells_orders_and_episodes_apart() -> None:
    other = RECORD._replace(outcome="timeout")
    assert made(RECORD, other) != made(other, RECORD)
    assert made(RECORD, RECORD) != made(RECORD, RECORD._replace(episode=1))
    assert made(RECORD) != made(RECORD, RECORD)


def test_nullable_changes_come_back_as_they_were() -> None:
    records = [RECORD._replace(own_changed=a, changed=b) for a in (None, False, True) for b in (None, False, True)]
    assert list(made(*records).rows()) == records
    assert [(t.own_changed, t.changed, t.count) for t in made(*records, *records).tallies()] == [
        (a, b, 2) for a in (False, None, True) for b in (False, None, True)
    ]


def test_records_of_other_contracts_are_refused(toy) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    result.check(toy.ToyGame().contracts_digest)
    with pytest.raises(ContractMismatchError, match="Run the burn-in again"):
        result.check("e" * 64)


def test_files_round_trip_and_tampering_shows(toy, tmp_path) -> None:
    result = burnin.run(toy.ToyGame(), PLAN)
    path = tmp_path / "b.parquet"
    burnin.save(result, path)
    assert burnin.load(path) == result
    assert not list(tmp_path.glob("*.part"))
    whole = pq.read_table(path)
    pq.write_table(whole.slice(1), path)
    with pytest.raises(BurninFormatError, match="columns and rows"):
        burnin.load(path)
    won = whole.set_column(7, "outcome", whole.column("outcome").take([*range(1, 720), 0]))
    pq.write_table(won, path)
    with pytest.raises(BurninFormatError, match="changed after"):
        burnin.load(path)
    path.write_text("no parquet")
    with pytest.raises(BurninFormatError, match="not a burn-in file"):
        burnin.load(path)
    with pytest.raises(BurninFormatError, match=r"nothing\.parquet: there is no such file"):
        burnin.load(tmp_path / "nothing.parquet")


@pytest.mark.parametrize(
    ("field", "value"), [("solo_episodes", -1), ("team_episodes", -1), ("horizon", 0), ("seed", 1.5), ("seed", True)]
)
def test_plans_that_cannot_be_played_name_the_field(field: str, value: object) -> None:
    with pytest.raises(BurninPlanError, match=field):
        BurninPlan(**{field: value})


def test_games_that_nobody_offers() -> None:
    with pytest.raises(UnknownGameError, match="No installed package"):
        games.make_game("nowhere/nothing")
