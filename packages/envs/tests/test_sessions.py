"""What a stream remembers, within bounds."""

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import from_status
from potluck_envs import sessions
from potluck_envs.local import Table

TEAM = [pb.SeatBaseline(agent=f"agent_{i}", baseline=pb.BASELINE_UNIFORM) for i in (0, 1)]


@pytest.fixture
def table():
    return Table()


def whole(episode, seed=1, request_id=""):
    start = pb.Start(game="relay/two_rooms", seed=seed, baselines=TEAM)
    return pb.Command(episode_id=episode, request_id=request_id, start=start)


def fork(episode, source):
    return pb.Command(episode_id=episode, fork=pb.Fork(episode_id=source, baselines=TEAM))


def reason(update):
    return from_status(update.refused.status).reason


def test_finished_episodes_are_forgotten_oldest_first(table, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_ENDED", 3)
    for i in range(5):
        table.send(whole(f"e{i}"))
    assert reason(table.send(fork("f", "e1"))) == "UNKNOWN_EPISODE"
    stop = pb.Command(episode_id="e4", stop=pb.Stop())
    assert reason(table.send(stop)) == "EPISODE_FINISHED"


def test_memory_for_finished_episodes_is_bounded_in_bytes(table, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_ENDED_BYTES", 5000)
    for i in range(60):
        table.send(whole(f"e{i}", request_id="r"))
    session = table._session
    assert session._ended_bytes <= 5000
    assert session._ended_bytes == sum(session._ended_sizes.values())
    assert set(session._slots) == set(session._ended_sizes)


def test_refused_starts_leave_nothing_behind(table, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_ENDED", 3)
    for i in range(10):
        assert reason(table.send(pb.Command(episode_id=f"e{i}", start=pb.Start(game="no/game")))) == "UNKNOWN_GAME"
    assert len(table._session._slots) <= 3
    assert table.send(whole("e9")).HasField("finished"), "the id is still free"


def test_too_many_running_episodes_are_refused(table, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_RUNNING", 2)
    start = pb.Start(game="relay/two_rooms")
    updates = table.send_all([pb.Command(episode_id=f"e{i}", start=start) for i in range(3)])
    assert [update.WhichOneof("outcome") for update in updates] == ["refused", "menus", "menus"]
    assert reason(updates[0]) == "OVERLOADED"


def test_large_answers_come_in_several_responses(table, monkeypatch):
    monkeypatch.setattr(sessions, "RESPONSE_BYTES", 4000)
    session = table._session
    start = pb.Start(game="relay/two_rooms")
    session.submit(pb.PlayRequest(commands=[pb.Command(episode_id=f"e{i}", start=start) for i in range(20)]))
    sizes = []
    while response := session.take():
        sizes.append(len(response))
    assert len(sizes) > 2
    assert max(sizes) < 8000
