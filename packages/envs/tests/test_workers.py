"""Workers that crash, hang or lose their server, and everybody else who must not notice."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import processes
import pytest
import wire_client as wire

from potluck.rpc.errors import Reason
from potluck_envs.server import env_server

pytestmark = pytest.mark.asyncio


async def test_a_crash_loses_the_episodes_of_its_worker_and_no_other():
    async with env_server(workers=2) as server, wire.Stream(server.address) as stream:
        # Episodes go to the least loaded worker: bad and with_it on one, the others on the other.
        begun = await stream.ask(wire.start("bad", game="faulty/exits", seed=13), wire.start("other", seed=1))
        begun |= await stream.ask(wire.start("with_it", seed=2), wire.start("another", seed=3))
        done = await stream.finish(begun.values())
        outcomes = {episode: update.WhichOneof("outcome") for episode, update in done.items()}
        assert outcomes == {"bad": "failed", "with_it": "failed", "other": "finished", "another": "finished"}
        for episode in ("bad", "with_it"):
            assert wire.reason(done[episode]) == Reason.ENGINE_CRASHED
            assert "exit code 7" in wire.message(done[episode])
            assert "same seed" in wire.message(done[episode])
        again = await stream.finish((await stream.ask(wire.start("with_it", seed=2))).values())
        assert again["with_it"].HasField("finished"), "the id is free and a new worker plays"


async def test_a_killed_worker_is_told_by_its_signal():
    async with env_server(workers=1) as server, wire.Stream(server.address) as stream:
        begun = (await stream.ask(wire.start("e")))["e"]
        [worker] = processes.children(os.getpid(), "spawn_main")
        assert "multiprocessing.spawn" in processes.command_line(worker), "never a fork"
        os.kill(worker, signal.SIGKILL)
        failed = (await stream.ask(wire.choose(begun)))["e"]
        assert wire.reason(failed) == Reason.ENGINE_CRASHED
        assert "SIGKILL" in wire.message(failed)
        assert (await stream.ask(wire.start("e")))["e"].HasField("menus")


async def test_an_episode_that_was_lost_in_silence_says_so_once():
    async with env_server(workers=1) as server, wire.Stream(server.address) as stream:
        await stream.ask(wire.start("e"))
        [worker] = processes.children(os.getpid(), "spawn_main")
        os.kill(worker, signal.SIGKILL)
        await asyncio.sleep(0.5)
        stop = wire.pb.Command(episode_id="e", stop=wire.pb.Stop())
        assert wire.reason((await stream.ask(stop))["e"]) == Reason.ENGINE_CRASHED
        stop.request_id = ""
        assert wire.reason((await stream.ask(stop))["e"]) == Reason.UNKNOWN_EPISODE


async def test_a_hang_times_out_and_the_others_play_on_meanwhile():
    async with env_server(workers=2, timeout=2) as server, wire.Stream(server.address) as stream:
        begun = await stream.ask(wire.start("hangs", game="faulty/hangs", seed=13), wire.start("other", seed=1))
        other = asyncio.Event()

        async def play_other():
            async with wire.Stream(server.address) as second:
                await second.finish((await second.ask(wire.start("mine", seed=4))).values())
                other.set()

        playing = asyncio.create_task(play_other())
        done = await stream.finish(begun.values())
        assert other.is_set(), "another stream was not held up"
        await playing
        assert done["other"].HasField("finished")
        assert wire.reason(done["hangs"]) == Reason.ENGINE_TIMEOUT
        assert "2 s" in wire.message(done["hangs"])
        again = (await stream.ask(wire.start("hangs", game="faulty/hangs", seed=1)))["hangs"]
        assert again.HasField("menus")


async def test_a_long_batch_is_no_hang():
    """Each command counts for itself: a wave of 60 slow episodes takes far longer than the time-out for one."""
    async with env_server(workers=1, timeout=3) as server, wire.Stream(server.address) as stream:
        await stream.ask(wire.start("warm up"))
        updates = await stream.ask(*(wire.start(f"e{i}", game="faulty/slow", seed=i) for i in range(60)))
        updates = await stream.ask(*(wire.choose(update) for update in updates.values()))
        assert all(update.HasField("menus") for update in updates.values())


async def test_a_command_that_says_that_it_is_busy_is_no_hang():
    """Six seconds of it under a time-out of three; the game that says nothing is ended above."""
    async with env_server(workers=1, timeout=3) as server, wire.Stream(server.address) as stream:
        begun = await stream.ask(wire.start("e", game="faulty/says_so", seed=13))
        assert (await stream.finish(begun.values()))["e"].HasField("finished")


SERVER = """
import asyncio, sys
from potluck_envs.server import env_server
async def main():
    async with env_server(workers=2) as server:
        print(server.address, flush=True)
        await asyncio.sleep(600)
if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_workers_end_when_their_server_is_killed(tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    server = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    address = (await asyncio.to_thread(server.stdout.readline)).strip()
    async with wire.Stream(address) as stream:
        hanging = await stream.ask(wire.start("hangs", game="faulty/hangs", seed=13), wire.start("e", seed=2))
        await stream.send(wire.choose(hanging["hangs"]), wire.choose(hanging["e"]))
        workers = processes.children(server.pid, "spawn_main")
        assert len(workers) == 2
        server.kill()
        await asyncio.to_thread(server.wait)
    deadline = time.monotonic() + 10
    while any(map(processes.alive, workers)) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert not [worker for worker in workers if processes.alive(worker)]


async def test_a_closed_stream_frees_its_episodes():
    async with env_server(workers=1) as server:
        async with wire.Stream(server.address) as stream:
            await stream.ask(*(wire.start(f"e{i}") for i in range(5)))
        async with wire.Stream(server.address) as stream:
            assert (await stream.ask(wire.start("e1")))["e1"].HasField("menus"), "ids belong to a stream"
