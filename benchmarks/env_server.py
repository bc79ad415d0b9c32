"""Steps per second of the env server beside the bare engine, in one run on the same machine.

    python benchmarks/env_server.py
    python benchmarks/env_server.py --game overcooked/asymmetric_advantages --episodes 32 --waves 200

Four ways to play the same layout with uniformly random choices: the engine's own `get_state_transition` with random
primitives; whole episodes by the server's uniform baseline in this process (menus, options, records, digest, no wire);
the same over commands in this process; and through a real server with one worker, one wave of all episodes per request.
Rates are per second of CPU of the process that plays, so that a busy machine does not blur them; the wall rate of the
last row is shown, too.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import grpc

from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1 import env_service_pb2_grpc as stubs
from potluck_envs.local import Table

TICKS = os.sysconf("SC_CLK_TCK")


def bare(layout: str, steps: int) -> float:
    """Steps per CPU second of the engine alone."""
    from potluck_envs.overcooked import shim  # noqa: F401
    from overcooked_ai_py.mdp.actions import Action  # isort: skip
    from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld  # isort: skip

    mdp, rng = OvercookedGridworld.from_layout_name(layout), random.Random(0)
    state = mdp.get_standard_start_state()
    joint = [tuple(rng.choice(Action.ALL_ACTIONS) for _ in range(2)) for _ in range(steps)]
    began = time.process_time()
    for actions in joint:
        state, _ = mdp.get_state_transition(state, actions)
    return steps / (time.process_time() - began)


def start(episode: str, game: str, seed: int, uniform: bool) -> pb.Command:
    """A start command."""
    agents = ("agent_0", "agent_1") if uniform else ()
    seats = [pb.SeatBaseline(agent=agent, baseline=pb.BASELINE_UNIFORM) for agent in agents]
    return pb.Command(episode_id=episode, start=pb.Start(game=game, seed=seed, baselines=seats))


def answer(update: pb.Update, rng: random.Random) -> pb.Command:
    """Uniform choices."""
    choices = [pb.Choice(agent=p.agent, letter=rng.choice(p.prompt.items).letter) for p in update.menus.decisions]
    choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
    return pb.Command(episode_id=update.episode_id, request_id=f"{update.menus.boundary}", choose=choose)


def local(game: str, episodes: int, uniform: bool) -> tuple[float, float]:
    """Steps and decisions per CPU second in this process."""
    table, rng, steps, decisions, spent = Table(), random.Random(0), 0, 0, 0.0
    table.send(start("warm up", game, 0, True))
    for seed in range(episodes):
        command = start(f"{seed}", game, seed, uniform)
        while True:
            began = time.process_time()
            update = table.send(command)
            spent += time.process_time() - began
            if update.HasField("finished"):
                break
            decisions += len(update.menus.decisions)
            command = answer(update, rng)
        steps += update.finished.steps
    return steps / spent, decisions / spent


def cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def worker_of(server: int) -> int:
    """The server's only worker."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as command:
                    if int(stat.read().rpartition(")")[2].split()[1]) == server and "spawn_main" in command.read():
                        return int(entry)
            except OSError:
                continue
    raise SystemExit("the server has no worker")


async def serve_and_play(game: str, episodes: int, waves: int) -> dict[str, float]:
    """Lockstep waves through a real server."""
    command = [sys.executable, "-m", "potluck_envs.cli", "serve", "--workers", "1", "--log", "WARNING"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    address = (await asyncio.to_thread(process.stdout.readline)).split()[-1]
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            call = stubs.EnvServiceStub(channel).Play()
            return await play(call, process.pid, game, episodes, waves)
    finally:
        process.terminate()
        process.wait()


async def play(call: Any, server: int, game: str, episodes: int, waves: int) -> dict[str, float]:
    """Plays waves and takes the times of all three processes."""

    async def ask(commands: list[pb.Command]) -> list[pb.Update]:
        await call.write(pb.PlayRequest(commands=commands))
        updates: list[pb.Update] = []
        while len(updates) < len(commands):
            updates += (await call.read()).updates
        return updates

    rng, fresh = random.Random(0), iter(range(1 << 30))
    updates = await ask([start(f"{i}", game, i, False) for _, i in zip(range(episodes), fresh, strict=False)])
    worker, position = worker_of(server), {u.episode_id: 0 for u in updates}
    steps = decisions = 0
    began, server_cpu, worker_cpu = time.perf_counter(), cpu(server), cpu(worker)
    for _ in range(waves):
        commands = []
        for update in updates:
            if update.HasField("finished"):
                steps += update.finished.steps - position.pop(update.episode_id)
                seed = next(fresh)
                position[f"{seed}"] = 0
                commands.append(start(f"{seed}", game, seed, False))
            else:
                steps += update.menus.step - position[update.episode_id]
                position[update.episode_id] = update.menus.step
                decisions += len(update.menus.decisions)
                commands.append(answer(update, rng))
        updates = await ask(commands)
    wall = time.perf_counter() - began
    server_cpu, worker_cpu = cpu(server) - server_cpu, cpu(worker) - worker_cpu
    return {
        "steps_per_worker_cpu_s": steps / worker_cpu,
        "decisions_per_worker_cpu_s": decisions / worker_cpu,
        "steps_per_wall_s": steps / wall,
        "server_us_per_decision": server_cpu / decisions * 1e6,
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="overcooked/forced_coordination")
    parser.add_argument("--episodes", type=int, default=32, help="episodes per wave")
    parser.add_argument("--waves", type=int, default=150)
    options = parser.parse_args()
    engine = bare(options.game.partition("/")[2], 4000)
    inside, _ = local(options.game, 5, True)
    commanded, decided = local(options.game, 5, False)
    served = asyncio.run(serve_and_play(options.game, options.episodes, options.waves))
    rows = [
        ("bare engine, random primitives", engine, 0.0),
        ("uniform baseline in process", inside, 0.0),
        ("commands in process", commanded, decided),
        ("worker behind the server", served["steps_per_worker_cpu_s"], served["decisions_per_worker_cpu_s"]),
    ]
    print(f"{options.game}, waves of {options.episodes} episodes")
    print(f"{'':<34}{'steps/CPU s':>12}{'of bare':>9}{'decisions/CPU s':>17}")
    for name, steps, decisions in rows:
        print(f"{name:<34}{steps:>12.0f}{steps / engine:>9.2f}{decisions or '':>17{'.0f' if decisions else ''}}")
    print(f"server process: {served['server_us_per_decision']:.0f} us of CPU per decision beside its worker")
    print(f"wall: {served['steps_per_wall_s']:.0f} steps/s with one worker")


if __name__ == "__main__":
    main()
