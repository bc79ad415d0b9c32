"""The server over the wire: many episodes, refusals, retries, forks, replays, traces of nobody."""

import asyncio
import importlib.metadata
import random
import subprocess
import sys

import grpc
import pytest
import pytest_asyncio
import wire_client as wire

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import PotluckError, Reason, from_rpc
from potluck_envs.server import env_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    async with env_server(workers=2) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def stream(server):
    async with wire.Stream(server.address) as stream:
        yield stream


async def test_many_episodes_play_at_once_and_repeat(stream):
    first = await stream.finish((await stream.ask(*(wire.start(f"e{i}", seed=i) for i in range(12)))).values())
    assert {update.WhichOneof("outcome") for update in first.values()} == {"finished"}
    assert len({update.finished.recording.digest for update in first.values()}) == 12
    again = await stream.ask(*(wire.start(f"f{i}", seed=i) for i in range(12)))
    for update in again.values():
        update.episode_id = update.episode_id.replace("f", "e")
    assert all(update.menus.boundary == 0 and update.menus.step == 0 for update in again.values())


async def test_start_brings_the_first_menus_and_seed_0_is_a_seed(stream):
    updates = await stream.ask(wire.start("zero", seed=0), wire.start("one", seed=1))
    zero = updates["zero"].menus
    assert [point.agent for point in zero.decisions] == ["agent_0", "agent_1"]
    assert all(point.prompt.rules and point.prompt.observation and point.prompt.items for point in zero.decisions)
    done = await stream.finish(updates.values())
    assert done["zero"].finished.recording.seed == 0
    assert done["zero"].finished.recording.digest != done["one"].finished.recording.digest


async def test_games_are_listed_with_what_numbers_depend_on(stream):
    games = {game.name: game for game in (await stream.stub.ListGames(pb.ListGamesRequest())).games}
    relay = games["relay/two_rooms"]
    assert list(relay.agents) == ["agent_0", "agent_1"]
    assert (relay.default_horizon, relay.engine, relay.dynamics, relay.reward_unit) == (
        60,
        "relay 1",
        "slippery",
        "parcels",
    )
    assert len(relay.library_digest) == 64
    assert relay.library_digest != games["faulty/raises"].library_digest, "guards are part of the library"
    assert set(relay.interfaces) == {pb.INTERFACE_MENU, pb.INTERFACE_JSON, pb.INTERFACE_NATIVE}
    assert games["overcooked/forced_coordination"].dynamics == "start_cooking"


REFUSALS = [
    (wire.start("new", game="relay/two_room"), Reason.UNKNOWN_GAME, "did you mean relay/two_rooms"),
    (wire.start("new", game="nothing/like_it"), Reason.UNKNOWN_GAME, "potluck-envs list"),
    (wire.start("new", game="missing/game"), Reason.INTERNAL, "'missing' (potluck_relay.no_such_module:provider)"),
    (wire.start("new", game="shapeless/game"), Reason.INTERNAL, "has no names, make, guards"),
    (wire.start("taken"), Reason.EPISODE_EXISTS, "'taken'"),
    (wire.start(""), Reason.INVALID_ARGUMENT, "command.episode_id"),
    (wire.start("new", horizon=10**6), Reason.INVALID_ARGUMENT, "start.horizon"),
    (wire.start("new", interface=9), Reason.INVALID_ARGUMENT, "start.interface"),
    (wire.start("new", detail=9), Reason.INVALID_ARGUMENT, "start.detail"),
    (
        wire.start("new", baselines=[pb.SeatBaseline(agent="agent_2", baseline=pb.BASELINE_NOOP)]),
        Reason.INVALID_ARGUMENT,
        "start.baselines.agent",
    ),
    (
        wire.start("new", baselines=[pb.SeatBaseline(agent="agent_1", baseline=77)]),
        Reason.INVALID_ARGUMENT,
        "start.baselines.baseline",
    ),
    (pb.Command(episode_id="taken"), Reason.INVALID_ARGUMENT, "command.action"),
    (pb.Command(episode_id="unheard of", stop=pb.Stop()), Reason.UNKNOWN_EPISODE, "'unheard of'"),
    (wire.fork("new", 0, "unheard of"), Reason.UNKNOWN_EPISODE, "'unheard of'"),
    (wire.fork("new", 7, "taken"), Reason.UNKNOWN_BOUNDARY, "boundaries 0 to 0"),
    (pb.Command(episode_id="new", fork=pb.Fork()), Reason.INVALID_ARGUMENT, "fork.source"),
    (wire.fork("new", 0, pb.Recording(schema_version=2)), Reason.INVALID_ARGUMENT, "recording.schema_version"),
    (
        wire.fork("new", 0, pb.Recording(schema_version=1, game="relay/two_rooms", library_digest="ab" * 32)),
        Reason.REPLAY_DIVERGED,
        "library abababababab",
    ),
]


async def test_refused_commands_say_why_and_leave_the_episode_as_it_was(stream):
    undisturbed = (await stream.finish((await stream.ask(wire.start("same id"))).values()))["same id"]
    taken = (await stream.ask(wire.start("taken")))["taken"]
    for command, reason, said in REFUSALS:
        refused = (await stream.ask(command))[command.episode_id]
        assert refused.WhichOneof("outcome") == "refused", command
        assert wire.reason(refused) == reason, wire.message(refused)
        assert said in wire.message(refused), wire.message(refused)
    taken.episode_id = "taken"
    updates = {"taken": taken}
    rng = random.Random("same id")
    while updates["taken"].HasField("menus"):
        updates = await stream.ask(wire.choose(updates["taken"], rng))
    assert updates["taken"].finished.recording.digest == undisturbed.finished.recording.digest


async def test_answers_to_a_finished_episode_are_refused(stream):
    await stream.finish((await stream.ask(wire.start("e"))).values())
    for command in (pb.Command(episode_id="e", choose=pb.Choose()), pb.Command(episode_id="e", stop=pb.Stop())):
        assert wire.reason((await stream.ask(command))["e"]) == Reason.EPISODE_FINISHED
    assert wire.reason((await stream.ask(wire.start("e")))["e"]) == Reason.EPISODE_EXISTS


async def test_a_repeated_request_gets_the_same_update_and_does_nothing(stream):
    begin = wire.start("e")
    first = (await stream.ask(begin))["e"]
    assert (await stream.ask(begin))["e"] == first
    answer = wire.choose(first)
    second = (await stream.ask(answer))["e"]
    assert second.menus.boundary == 1
    assert (await stream.ask(answer))["e"] == second
    await stream.send(answer, answer)
    assert await stream.receive(2) == [second, second]
    done = (await stream.finish([second]))["e"]
    retried = pb.Command(episode_id="e", request_id=done.request_id, choose=pb.Choose())
    assert (await stream.ask(retried))["e"] == done


async def test_commands_of_one_episode_may_be_sent_ahead(stream):
    first = (await stream.ask(wire.start("e", seed=3)))["e"]
    await stream.send(
        wire.choose(first), pb.Command(episode_id="e", stop=pb.Stop()), pb.Command(episode_id="e", stop=pb.Stop())
    )
    outcomes = [update.WhichOneof("outcome") for update in await stream.receive(3)]
    assert outcomes == ["menus", "finished", "refused"]


async def test_forks_of_running_finished_and_recorded_episodes_agree(stream):
    first = (await stream.ask(wire.start("e", seed=5)))["e"]
    second = (await stream.ask(wire.choose(first)))["e"]
    running = await stream.ask(wire.fork("running", 1, "e"), wire.fork("earlier", 0, "e"))
    assert running["running"].menus.decisions == second.menus.decisions
    assert running["earlier"].menus.decisions == first.menus.decisions
    ends = await stream.finish([second], letters="first")
    finished = (await stream.ask(wire.fork("finished", 1, "e")))["finished"]
    recorded = (await stream.ask(wire.fork("recorded", 1, ends["e"].finished.recording)))["recorded"]
    assert finished.menus.decisions == recorded.menus.decisions == second.menus.decisions
    forks = await stream.finish([running["running"], running["earlier"], finished, recorded], letters="first")
    assert {update.finished.recording.digest for update in forks.values()} == {ends["e"].finished.recording.digest}


async def test_a_fork_waits_for_the_open_command_of_its_source(stream):
    first = (await stream.ask(wire.start("e", seed=5)))["e"]
    await stream.send(wire.choose(first), wire.fork("f", 1, "e"))
    by_id = {update.episode_id: update for update in await stream.receive(2)}
    assert by_id["f"].menus.decisions == by_id["e"].menus.decisions


async def test_replay_gives_frames_and_refuses_what_does_not_match(stream):
    done = (await stream.finish((await stream.ask(wire.start("e"))).values()))["e"].finished
    replay = await stream.stub.Replay(pb.ReplayRequest(recording=done.recording, frames=True))
    assert (replay.digest, replay.steps, replay.team_return) == (done.recording.digest, 60, done.team_return)
    assert [frame.step for frame in replay.frames] == list(range(61))
    assert (replay.scene.width, replay.scene.height, len(replay.scene.tiles)) == (7, 2, 14)
    chosen = replay.frames[1].agents[0]
    assert chosen.letter in [item.letter for item in chosen.items]
    lean = await stream.stub.Replay(pb.ReplayRequest(recording=done.recording))
    assert not lean.frames
    other = pb.Recording()
    other.CopyFrom(done.recording)
    other.seed += 1
    with pytest.raises(grpc.RpcError) as failure:
        await stream.stub.Replay(pb.ReplayRequest(recording=other))
    assert from_rpc(failure.value).reason == Reason.REPLAY_DIVERGED


async def test_an_exception_in_a_game_loses_its_episode_only_and_stays_in_the_log(stream):
    started = await stream.ask(
        wire.start("bad", game="faulty/raises", seed=13), wire.start("good", game="faulty/raises")
    )
    done = await stream.finish(started.values())
    assert wire.reason(done["bad"]) == Reason.ENGINE_CRASHED
    assert "secret" not in str(done["bad"])
    assert "RuntimeError" in wire.message(done["bad"])
    assert done["good"].HasField("finished")
    again = (await stream.ask(wire.start("bad", game="faulty/raises", seed=14)))["bad"]
    assert again.HasField("menus"), "the id of a lost episode is free"


async def test_the_stream_ends_when_the_client_is_done_and_all_is_answered(stream):
    await stream.send(wire.start("e"))
    await stream.call.done_writing()
    assert (await stream.receive(1))[0].HasField("menus")
    assert await asyncio.wait_for(stream.call.read(), 10) is grpc.aio.EOF


async def test_draining_refuses_new_episodes_and_lets_running_ones_end():
    async with env_server(workers=1) as server, wire.Stream(server.address) as stream:
        begun = await stream.ask(wire.start("old"))
        draining = asyncio.create_task(server.drain(30))
        await asyncio.sleep(0.1)
        assert wire.reason((await stream.ask(wire.start("new")))["new"]) == Reason.DRAINING
        assert (await stream.finish(begun.values()))["old"].HasField("finished")
        await asyncio.wait_for(draining, 10)


async def test_a_port_in_use_is_said_before_any_worker_starts():
    async with env_server(workers=1) as server:
        with pytest.raises(PotluckError, match="in use") as failure:
            async with env_server(server.address, workers=1):
                pass
    assert failure.value.reason == Reason.PORT_IN_USE


async def test_the_server_process_holds_no_engine_and_the_package_no_torch():
    code = (
        "import sys, asyncio, potluck_envs.cli, potluck_envs.server, potluck_envs.worker\n"
        "print([m for m in ('torch', 'overcooked_ai_py', 'dmlab2d', 'transformers') if m in sys.modules])"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    required = importlib.metadata.requires("potluck-envs") or []
    assert not [name for name in required if name.startswith(("torch", "transformers"))]
