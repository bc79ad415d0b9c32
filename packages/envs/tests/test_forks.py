"""Forks: what they keep, what they replace, and what they record."""

import random

import pytest
from potluck_relay.game import Relay

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import from_status
from potluck_envs import forks
from potluck_envs.local import Table

NOOP, UNIFORM, GREEDY = pb.BASELINE_NOOP, pb.BASELINE_UNIFORM, pb.BASELINE_GREEDY


@pytest.fixture
def table():
    return Table()


def seats(**baselines):
    return [pb.SeatBaseline(agent=agent, baseline=baseline) for agent, baseline in baselines.items()]


def begin(table, episode="e", seed=1, **fields):
    return table.send(pb.Command(episode_id=episode, start=pb.Start(game="relay/two_rooms", seed=seed, **fields)))


def fork(table, episode, source, boundary, **fields):
    command = pb.Command(episode_id=episode, fork=pb.Fork(boundary=boundary, detail=pb.DETAIL_STEPS, **fields))
    if isinstance(source, str):
        command.fork.episode_id = source
    else:
        command.fork.recording.CopyFrom(source)
    return table.send(command)


def finish(table, update, seed=0, choices=()):
    rng, given, seen = random.Random(seed), {c.boundary: c for c in choices}, []
    while update.HasField("menus"):
        seen.append(update.menus)
        letters = [pb.Choice(agent=p.agent, letter=rng.choice(p.prompt.items).letter) for p in update.menus.decisions]
        choose = given.get(update.menus.boundary, pb.Choose(boundary=update.menus.boundary, choices=letters))
        update = table.send(pb.Command(episode_id=update.episode_id, choose=choose))
    assert update.HasField("finished"), from_status(update.refused.status)
    return update.finished


def test_a_fork_with_other_baselines_replaces_them_all(table):
    original = finish(table, begin(table, baselines=seats(agent_1=GREEDY)))
    update = fork(table, "f", original.recording, 2, baselines=seats(agent_0=NOOP))
    assert {point.agent for point in update.menus.decisions} <= {"agent_1"}
    done = finish(table, update)
    assert [seat.agent for seat in done.recording.segments[0].baselines] == ["agent_1"]
    assert (done.recording.segments[1].boundary, done.recording.segments[1].baselines[0].agent) == (2, "agent_0")
    assert table.replay(done.recording).digest == done.recording.digest


def test_a_seat_that_becomes_noop_first_ends_its_option(table):
    original = finish(table, begin(table, detail=pb.DETAIL_STEPS))
    boundary = next(c.boundary for c in original.recording.choices if [x.agent for x in c.choices] == ["agent_1"])
    done = finish(table, fork(table, "f", original.recording, boundary, baselines=seats(agent_0=NOOP)))
    ended = [option for option in done.progress.options if option.agent == "agent_0"]
    assert len(ended) <= 1


def test_a_noop_seat_can_be_given_back_to_a_policy(table):
    original = finish(table, begin(table, baselines=seats(agent_1=NOOP)))
    update = fork(table, "f", original.recording, 1)
    assert [point.agent for point in update.menus.decisions] == ["agent_0", "agent_1"]
    again = fork(table, "g", "f", 1)
    assert again.menus.decisions == update.menus.decisions, "also where nobody has answered yet"
    done = finish(table, update)
    assert done.recording.digest == finish(table, again).recording.digest
    assert table.replay(done.recording).digest == done.recording.digest
    late = fork(table, "h", done.recording, 6)
    assert finish(table, late, choices=done.recording.choices).recording.digest == done.recording.digest


def test_a_game_that_cannot_wake_a_noop_seat_says_so(table, monkeypatch):
    original = finish(table, begin(table, baselines=seats(agent_1=NOOP)))
    begin_strictly = Relay.begin

    def strict(self, agent, instance):
        if self.world.agents[agent].option is not None:
            raise ValueError("busy")
        begin_strictly(self, agent, instance)

    monkeypatch.setattr(Relay, "begin", strict)
    refused = fork(table, "f", original.recording, 1)
    assert "cannot wake it" in from_status(refused.refused.status).message
    assert fork(table, "g", original.recording, 1, baselines=seats(agent_1=NOOP)).HasField("menus")


def test_all_seats_played_by_baselines_finish_at_once(table):
    original = finish(table, begin(table))
    done = fork(table, "f", original.recording, 3, baselines=seats(agent_0=GREEDY, agent_1=UNIFORM)).finished
    assert done.steps == 60
    assert len(done.recording.choices) == 3
    assert table.replay(done.recording).digest == done.recording.digest


def test_forks_of_forks_re_execute(table):
    recording = finish(table, begin(table)).recording
    for depth, (boundary, reseed, baselines) in enumerate(
        [
            (4, 1, {}),
            (4, None, {"agent_1": GREEDY}),
            (4, 9, {"agent_0": UNIFORM}),
            (6, 2, {}),
            (5, None, {"agent_0": NOOP}),
        ]
    ):
        fields = {} if reseed is None else {"reseed": reseed}
        update = fork(table, f"f{depth}", recording, boundary, baselines=seats(**baselines), **fields)
        recording = finish(table, update, seed=depth).recording
        assert table.replay(recording).digest == recording.digest
    # The last fork, from boundary 5, cuts off the one from boundary 6.
    assert [segment.boundary for segment in recording.segments] == [0, 4, 4, 4, 5]


def test_a_reseed_equal_to_the_seed_is_new_randomness_all_the_same(table):
    original = finish(table, begin(table, seed=7))
    done = finish(table, fork(table, "f", original.recording, 0, reseed=7), choices=())
    assert done.recording.digest != original.recording.digest


def test_progress_of_a_fork_begins_at_the_fork_and_returns_count_from_the_start(table):
    original = finish(table, begin(table, baselines=seats(agent_0=GREEDY), detail=pb.DETAIL_STEPS))
    late = len(original.recording.choices) - 2
    update = fork(table, "f", original.recording, late, baselines=seats(agent_0=GREEDY))
    assert not update.menus.progress.steps
    done = finish(table, update, choices=original.recording.choices)
    assert done.team_return == original.team_return
    assert done.recording.digest == original.recording.digest


def test_many_forks_of_one_recording_cost_one_re_execution(table, monkeypatch):
    original = finish(table, begin(table))
    begun = []
    monkeypatch.setattr(forks, "begin", lambda *args: begun.append(1) or _begin(*args))
    _begin = __import__("potluck_envs.recording", fromlist=["begin"]).begin
    for number, boundary in enumerate((20, 20, 3, 20, 19, 30)):
        update = fork(table, f"f{number}", original.recording, boundary)
        assert update.menus.boundary == boundary
    assert len(begun) == 2, "boundary 3 lies before the first mark; all others start at marks"


def test_unknown_boundaries_are_refused_with_what_there_is(table):
    original = finish(table, begin(table))
    last = len(original.recording.choices)
    for boundary in (last, last + 5):
        refused = fork(table, "f", original.recording, boundary)
        error = from_status(refused.refused.status)
        assert error.reason == "UNKNOWN_BOUNDARY"
        assert f"boundaries 0 to {last - 1} exist" in error.message or f"0 to {last} exist" in error.message


def test_a_recording_with_an_impossible_choice_has_diverged(table):
    recording = finish(table, begin(table)).recording
    recording.choices[2].choices[0].letter = "Z"
    refused = fork(table, "f", recording, 5)
    assert from_status(refused.refused.status).reason == "REPLAY_DIVERGED"
