"""Planners on narrow and wide maps: building the tables, and plans per second, in one run on the same machine.

    python benchmarks/planners.py
    python benchmarks/planners.py --steps 3000

Tables are those of all targets in both manners, once by the vectorised search of the library and once target by target
with a queue and distances only, which is what one would write first. Plans: agents go to uniformly drawn targets on the
maps of the tests' crowd; a plan is one joint step of all agents. Rates are per second of CPU.
"""

import argparse
import importlib.util
import sys
import time
from collections import deque
from pathlib import Path
from types import ModuleType

from potluck_optionlib.planners import COMPASS, DRIVING, FAR, Grid

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


def main() -> None:
    """Prints both tables."""
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
