"""Planners on narrow and wide maps: building the tables, and plans per second, in one run on the same machine.

    python benchmarks/planners.py
    python benchmarks/planners.py --steps 3000

Joint distances are those of two agents to all targets to stand beside; their plans are joint steps of two agents that
go to uniformly drawn targets, by the tables for two (`plan_pair`) and step by step (`plan`).
Tables are those of all targets in both manners, once by the vectorised search of the library and once target by target
with a queue and distances only, which is what one would write first. Plans: agents go to uniformly drawn targets on the
maps of the tests' crowd; a plan is one joint step of all agents. Rates are per second of CPU.
"""

import argparse
import importlib.util
import random
import sys
import time
from collections import deque
from pathlib import Path
from types import ModuleType

from potluck_optionlib.planners import ACT, COMPASS, DRIVING, FAR, Grid, Pairs, Partner, Wish, plan, plan_pair

CROWD = Path(__file__).parents[1] / "packages" / "optionlib" / "tests" / "planners" / "crowd.py"


def load_crowd() -> ModuleType:
    """The crowd that the planners' tests use."""
    spec = importlib.util.spec_from_file_location("crowd", CROWD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["crowd"] = module
    spec.loader.exec_module(module)
    return module


def by_queue(grid: Grid) -> list[list[int]]:
    """Distances to stand on every cell, target by target."""
    moves = grid.field().moves
    into: list[list[int]] = [[] for _ in moves]
    for pose, ways in enumerate(moves):
        for _, after in ways:
            into[after].append(pose)
    tables = []
    for starts in (grid.starts_on, grid.starts_beside):
        for target in range(starts.shape[1]):
            distance = [FAR] * grid.size
            queue = deque(int(pose) for pose in starts[:, target].nonzero()[0])
            for pose in queue:
                distance[pose] = 0
            while queue:
                pose = queue.popleft()
                for before in into[pose]:
                    if distance[before] == FAR:
                        distance[before] = distance[pose] + 1
                        queue.append(before)
            tables.append(distance)
    return tables


def timed_tables(floor: list[tuple[int, int]], motion: object) -> tuple[int, int, float, float]:
    """Poses, targets, milliseconds of the library's tables, and of those by a queue."""
    grid = Grid(floor, motion)  # type: ignore[arg-type]
    assert grid.starts_on.any()
    assert grid.starts_beside.any()
    began = time.process_time()
    field = grid.field()
    assert field.on.distance.shape == field.beside.distance.shape
    fast = time.process_time() - began
    began = time.process_time()
    slow_tables = by_queue(grid)
    slow = time.process_time() - began
    assert slow_tables == [*field.on.distance.tolist(), *field.beside.distance.tolist()]
    return grid.size, len(grid.targets), 1e3 * fast, 1e3 * slow


def timed_pair(floor: list[tuple[int, int]], steps: int) -> tuple[float, float, float]:
    """Milliseconds of all joint tables, and joint steps a CPU second by them and step by step."""
    pairs = Pairs(Grid(floor, COMPASS))
    began = time.process_time()
    for target in range(len(pairs.grid.targets)):
        pairs.distance(target)
    tables, rates = 1e3 * (time.process_time() - began), []
    for exact in (True, False):
        rng, detour = random.Random(0), None
        poses = [4 * cell for cell in rng.sample(range(len(pairs.grid.cells)), 2)]
        targets, ranks = [0, 0], [0, 1]
        began = time.process_time()
        for step in range(steps):
            walkers = []
            for i in (0, 1):
                row = pairs.field.beside.row(targets[i])
                walkers.append(
                    Partner(Wish.GO if row[poses[i]] else Wish.ACT, poses[i], targets[i], True, (ranks[i], i))
                )
            if exact:
                ways: tuple[int, ...] = plan_pair(pairs, walkers[0], walkers[1])
            else:
                joint = plan(pairs.grid, walkers, (), detour)
                ways, detour = joint.ways, joint.detour
            for i in (0, 1):
                poses[i] = pairs.field.after(poses[i], ways[i])
                if ways[i] == ACT:
                    targets[i], ranks[i] = rng.randrange(len(pairs.grid.targets)), step
                    while pairs.field.beside.row(targets[i])[poses[i]] >= FAR:
                        targets[i] = rng.randrange(len(pairs.grid.targets))
        rates.append(steps / (time.process_time() - began))
    return tables, rates[0], rates[1]


def main() -> None:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="joint steps per crowd")
    options = parser.parse_args()
    crowd = load_crowd()
    floors = {name: crowd.floor(name) for name in crowd.MAPS}
    floors["open 30x30"] = [(x, y) for x in range(30) for y in range(30)]
    print(f"{'tables':<12}{'motion':>9}{'poses':>7}{'targets':>9}{'ms':>8}{'queue ms':>10}{'ratio':>7}")
    for name, floor in floors.items():
        for label, motion in (("compass", COMPASS), ("driving", DRIVING)):
            poses, targets, fast, slow = timed_tables(floor, motion)
            print(f"{name:<12}{label:>9}{poses:>7}{targets:>9}{fast:>8.1f}{slow:>10.1f}{slow / fast:>7.1f}")
    print(f"\n{'two agents':<12}{'joint tables ms':>17}{'plan_pair/CPU s':>17}{'plan/CPU s':>12}{'ratio':>7}")
    for name in crowd.MAPS:
        tables, exact, stepwise = timed_pair(floors[name], options.steps)
        print(f"{name:<12}{tables:>17.1f}{exact:>17.0f}{stepwise:>12.0f}{exact / stepwise:>7.1f}")
    head = f"{'plans':<12}{'motion':>9}{'agents':>8}{'plans/CPU s':>13}{'options':>9}{'timed out':>11}"
    print(f"\n{head}{'longest stand':>15}")
    for name in crowd.MAPS:
        for label, motion, engine in (("compass", COMPASS, "joint"), ("driving", DRIVING, "sequential")):
            for agents in (2, 4, 7):
                if agents > len(floors[name]) // 4:
                    continue
                walkers = crowd.Crowd.on(name, motion, agents, 1, engine)
                began = time.process_time()
                for _ in range(options.steps):
                    walkers.step()
                rate = options.steps / (time.process_time() - began)
                done, late = walkers.outcomes.total(), walkers.outcomes["timeout"]
                row = f"{name:<12}{label:>9}{agents:>8}{rate:>13.0f}{done:>9}"
                print(f"{row}{late / done:>11.2%}{walkers.longest_stand:>15}")


if __name__ == "__main__":
    main()
