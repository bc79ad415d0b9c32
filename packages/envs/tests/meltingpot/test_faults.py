"""Engines that die in the middle of a wave: one episode fails, typed, and the others of its worker play on."""

import os
import signal

import processes
import pytest
import wire_client as wire

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import Reason
from potluck_envs.local import Table
from potluck_envs.server import env_server

HARVEST = "meltingpot/commons_harvest__open"
pytestmark = pytest.mark.timeout(600)


def engine_of(episode):
    """The pid of the engine of an episode in this process."""
    return episode.game.world._engine._core.pid


def test_a_killed_engine_fails_its_own_episode_and_a_new_one_repeats_it():
    table = Table()
    updates = {
        name: table.send(pb.Command(episode_id=name, start=pb.Start(game=HARVEST, seed=seed, horizon=12)))
        for name, seed in (("bad", 1), ("good", 2), ("undisturbed", 1))
    }

    def answer(update):
        choices = [pb.Choice(agent=p.agent, letter=p.prompt.items[0].letter) for p in update.menus.decisions]
        choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
        return table.send(pb.Command(episode_id=update.episode_id, choose=choose))

    updates = {name: answer(update) for name, update in updates.items()}
    os.kill(engine_of(table.episode("bad")), signal.SIGKILL)
    failed = answer(updates["bad"])
    assert wire.reason(failed) == Reason.ENGINE_CRASHED
    assert "same seed" in wire.message(failed)
    for name in ("good", "undisturbed"):
        while not updates[name].HasField("finished"):
            updates[name] = answer(updates[name])
    again = table.send(pb.Command(episode_id="bad", start=pb.Start(game=HARVEST, seed=1, horizon=12)))
    while not again.HasField("finished"):
        again = answer(again)
    assert again.finished.recording.digest == updates["undisturbed"].finished.recording.digest
    assert again.finished.recording.digest != updates["good"].finished.recording.digest


@pytest.mark.asyncio
async def test_in_a_wave_over_the_server_each_killed_engine_costs_its_episode_and_a_killed_worker_its_own():
    async with env_server(workers=1, timeout=300) as server, wire.Stream(server.address) as stream:
        begun = await stream.ask(
            wire.start("relay", seed=3), *(wire.start(f"e{i}", game=HARVEST, seed=i, horizon=8) for i in range(3))
        )
        [worker] = processes.children(os.getpid(), "spawn_main")
        [nursery] = processes.children(worker, "meltingpot.nursery")
        engines = processes.children(nursery, "meltingpot.nursery")
        assert len(engines) == 3, "an engine process an episode"
        os.kill(engines[0], signal.SIGKILL)
        done = await stream.finish(begun.values())
        outcomes = [update.WhichOneof("outcome") for update in done.values()]
        assert sorted(outcomes) == ["failed", "finished", "finished", "finished"]
        assert done["relay"].HasField("finished")
        [failed] = [update for update in done.values() if update.HasField("failed")]
        assert wire.reason(failed) == Reason.ENGINE_CRASHED
        begun = await stream.ask(wire.start("f", game=HARVEST, seed=1, horizon=8))
        os.kill(worker, signal.SIGKILL)
        failed = (await stream.ask(wire.choose(begun["f"])))["f"]
        assert wire.reason(failed) == Reason.ENGINE_CRASHED
        again = await stream.finish((await stream.ask(wire.start("f", game=HARVEST, seed=1, horizon=8))).values())
        assert again["f"].HasField("finished")
        engines += [nursery]
    assert not [pid for pid in engines if processes.alive(pid)], "nothing outlives its worker"
