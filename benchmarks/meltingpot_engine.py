"""Melting Pot's engine as it comes and as it is used here: steps per second, restarts, forks and memory, in one run.

    python benchmarks/meltingpot_engine.py
    python benchmarks/meltingpot_engine.py --steps 2000 --repeats 3

Uniform primitives of seven agents. Rates are per second of CPU of all processes that play, so that a busy machine does
not blur them; times of restarts and forks are the best of several, by the clock and as CPU time of this process (which
is all of a restart in place, and next to nothing of what happens in other processes). `stock` is the environment that
Melting Pot's own builder makes, which renders every observation in every step; `stock, blind` is the same level with no
observation at all; `here` tells whole symbolic frames from an engine in this process, `here, apart` from one in a
process of its own, as games have it. Decisions per second are in benchmarks/meltingpot_play.py.
"""

import argparse
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.engine import Engine
from potluck_envs.meltingpot.process import ProcessCore
from potluck_envs.meltingpot.substrates import SUBSTRATES, Substrate

TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rate(steps: int, play: Callable[[int], None], pid: int = 0) -> float:
    """Steps per second of CPU of this process and another one."""
    began, before = time.process_time(), cpu(pid) if pid else 0.0
    for number in range(steps):
        play(number)
    return steps / (time.process_time() - began + (cpu(pid) - before if pid else 0.0))


def best(repeats: int, do: Callable[[], object]) -> str:
    """Milliseconds by the clock and of CPU."""
    wall, spent = [], []
    for _ in range(repeats):
        began, before = time.perf_counter(), time.process_time()
        do()
        wall.append(time.perf_counter() - began)
        spent.append(time.process_time() - before)
    return f"{1000 * min(wall):.1f} ms ({1000 * min(spent):.1f} ms CPU)"


def stock(known: Substrate, joints: list[list[str]], rendered: bool) -> float:
    """Steps per second of Melting Pot's own environment."""
    module = stack.config(known.name)
    config = module.get_config()
    definition = module.build(("default",) * known.agents, config)
    environment = stack.builder().builder(definition, env_seed=1)
    environment.reset()
    by_name = {name: value for name, value in vars(module).items() if name in known.actions}
    vectors = [
        {f"{seat + 1}.{key}": value for seat, name in enumerate(joint) for key, value in by_name[name].items()}
        for joint in joints
    ]
    if rendered:
        return rate(len(joints), lambda number: environment.step(vectors[number]))
    raw = environment._env._env
    order = raw.action_discrete_names()
    plain = [stack_vector(vector, order) for vector in vectors]

    def blind(number: int) -> None:
        raw.act_discrete(plain[number])
        raw.advance()

    return rate(len(joints), blind)


def stack_vector(vector: dict[str, int], order: list[str]) -> object:
    """The engine's vector of a joint action."""
    import numpy as np

    return np.array([vector[name] for name in order], np.int32)


def memory(pid: int) -> tuple[float, float]:
    """Megabytes: resident, and of the process's own."""
    rows = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    sizes = {row[0]: int(row[1]) / 1024 for row in rows}
    return sizes["Rss:"], sizes["Private_Dirty:"] + sizes["Private_Clean:"]


def measure(known: Substrate, steps: int, repeats: int) -> None:
    """Prints the table of one substrate."""
    rng = random.Random(0)
    joints = [[rng.choice(known.actions) for _ in range(known.agents)] for _ in range(steps)]
    rows = {"stock": stock(known, joints[: steps // 4], True), "stock, blind": stock(known, joints, False)}
    began = time.perf_counter()
    here = Engine(known.name, core=Core)
    here.reset(1)
    build = 1000 * (time.perf_counter() - began)
    rows["here"] = rate(steps, lambda number: here.step(joints[number]) and None)
    apart = Engine(known.name)
    apart.reset(1)
    core = apart._core
    assert isinstance(core, ProcessCore)
    rows["here, apart"] = rate(steps, lambda number: apart.step(joints[number]) and None, core.pid)
    print(f"\n{known.name}: {steps} steps, {known.agents} agents")
    for name, found in rows.items():
        print(f"  {name:14} {found:8.0f} steps/s of CPU   {found / rows['stock']:.2f} x stock")
    seeds = iter(range(10**6))
    restart = best(repeats, lambda: here.reset(next(seeds)))
    fork = best(repeats, core.fork)
    fresh = best(repeats, lambda: Engine(known.name).reset(next(seeds)))
    twin = core.fork()
    twin.advance(bytes(known.agents))
    (whole, _), (_, own) = memory(core.pid), memory(twin.pid)
    print(f"  first build and start {build:.0f} ms, restart in place {restart}, new process and start {fresh}")
    print(f"  fork of a running engine {fork}, {own:.1f} MB of its own; the engine is resident in {whole:.0f} MB")


def main() -> None:
    """Reads the arguments and measures both substrates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for known in SUBSTRATES.values():
        measure(known, arguments.steps, arguments.repeats)


if __name__ == "__main__":
    main()
