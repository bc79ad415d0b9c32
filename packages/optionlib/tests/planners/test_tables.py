"""Tables against a plain breadth-first search, and moves as data."""

import gc
import weakref
from collections import deque

import pytest

from potluck_optionlib.planners import COMPASS, DRIVING, FAR, FLAT, Grid, Motion, Pose, tables
from potluck_optionlib.planners.motion import STEPS, compass, driving

MOTIONS = {
    "compass": COMPASS,
    "flat": FLAT,
    "driving": DRIVING,
    "turn first": compass("NSEW", "stay", turn_first=True),
    "forward only": driving(),
}


def tried(motion: Motion, floor: set[tuple[int, int]], pose: Pose) -> list[tuple[str, Pose]]:
    """What the primitives do, written down a second time."""
    found = []
    for way in motion.ways[pose.facing]:
        ahead = (pose.x + way.dx, pose.y + way.dy)
        found.append((way.primitive, Pose(*(ahead if ahead in floor else pose[:2]), way.facing)))
    return found


def there(pose: Pose, target: tuple[int, int], adjacent: bool) -> bool:
    if not adjacent:
        return pose[:2] == target
    ahead = [STEPS[pose.facing]] if pose.facing else STEPS.values()
    return any((pose.x + dx, pose.y + dy) == target for dx, dy in ahead)


def searched(motion: Motion, floor: set[tuple[int, int]], start: Pose, target: tuple[int, int], adjacent: bool) -> int:
    """Least primitives by forward search."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        pose, steps = queue.popleft()
        if there(pose, target, adjacent):
            return steps
        for _, after in tried(motion, floor, pose):
            if after not in seen:
                seen.add(after)
                queue.append((after, steps + 1))
    return FAR


@pytest.mark.parametrize("name", MOTIONS)
@pytest.mark.parametrize("closed", [frozenset(), frozenset({(4, 2)})])
def test_tables_hold_least_distances_and_the_way_to_go(name: str, closed: frozenset, crowd) -> None:
    motion, cells = MOTIONS[name], crowd.floor("two rooms")
    grid, open_cells = Grid(cells, motion), set(cells) - closed
    field = grid.field(closed)
    for cell in sorted(open_cells)[::3]:
        for facing in grid.facings:
            start = Pose(*cell, facing)
            pose = grid.pose(start)
            for index, target in enumerate(grid.targets[::4]):
                for adjacent in (True, False):
                    table = field.table(adjacent)
                    distance = table.row(4 * index)[pose]
                    assert distance == searched(motion, open_cells, start, target, adjacent)
                    if 0 < distance < FAR:
                        way = table.action[4 * index][pose]
                        assert table.row(4 * index)[field.successors[way, pose]] == distance - 1
                        primitive = grid.primitive(pose, way)
                        after = dict(tried(motion, open_cells, start))[primitive]
                        assert grid.pose(after) == field.successors[way, pose]
                    else:
                        assert table.action[4 * index][pose] == -1


def test_a_closed_door_divides_the_map_and_its_tables_are_kept_apart(crowd) -> None:
    grid = Grid(crowd.floor("two rooms"), COMPASS)
    here, there_ = grid.pose(Pose(1, 1, "N")), grid.target_index[9, 1]
    assert grid.field().on.row(there_)[here] < FAR
    assert grid.field({(5, 2)}).on.row(there_)[here] == FAR
    assert grid.field().on.row(there_)[here] < FAR
    assert grid.field({(5, 2)}) is grid.field([(5, 2)])


def test_tables_that_somebody_holds_are_not_made_again(crowd, monkeypatch) -> None:
    monkeypatch.setattr(tables, "_KEPT", 2)
    grid = Grid(crowd.floor("two rooms"), COMPASS)
    closings = [(cell,) for cell in grid.cells[:5]]
    held = [grid.field(closed) for closed in closings]
    assert [grid.field(closed) for closed in closings] == held, "each of many games in turn holds its own"
    loose = weakref.ref(grid.field(closings[0]))
    held.clear()
    for closed in closings[1:]:
        grid.field(closed)
    gc.collect()
    assert loose() is None, "what nobody holds goes with the oldest"


def test_turning_first_costs_a_step_and_driving_sideways_none() -> None:
    floor = [(x, y) for x in range(5) for y in range(5)]
    steps = {}
    for name, motion in MOTIONS.items():
        grid = Grid(floor, motion)
        facing = "N" if "N" in grid.facings else ""
        steps[name] = grid.field().on.row(grid.target_index[3, 2])[grid.pose(Pose(2, 2, facing))]
    assert steps == {"compass": 1, "flat": 1, "driving": 1, "turn first": 2, "forward only": 2}
