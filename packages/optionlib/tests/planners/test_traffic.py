"""Right of way among many: nobody collides, everybody arrives, and what cannot be done is said."""

from dataclasses import replace

import pytest

from potluck_optionlib.planners import ACT, COMPASS, DRIVING, FLAT, Detour, Grid, Pose, Walker, Wish, plan
from potluck_optionlib.planners import traffic as traffic_module
from potluck_optionlib.planners.motion import compass, driving

MOTIONS = {
    "compass": COMPASS,
    "flat": FLAT,
    "driving": DRIVING,
    "one by one": compass("NSEW", "stay", following=False),
    "turn first": compass("NSEW", "stay", turn_first=True),
    "forward only": driving(following=True),
}
SMOOTH = [(name, "joint") for name in ("compass", "flat")] + [("driving", "sequential"), ("one by one", "sequential")]
CASES = [
    *[(place, n, *how) for place in ("two rooms", "orchard") for n in (2, 7) for how in SMOOTH],
    *[(place, n, *how) for place in ("kitchen", "ring", "dead ends") for n in (2, 4) for how in SMOOTH],
    *[("corridor", n, *how) for n in (2, 3) for how in SMOOTH],
    *[("two rooms", 4, name, "joint") for name in ("turn first", "forward only")],
    ("two rooms", 5, "driving", "sloppy"),
]
STEPS = 600


@pytest.mark.parametrize(("place", "agents", "motion", "engine"), CASES)
def test_everybody_arrives_and_nobody_stands_for_long(place: str, agents: int, motion: str, engine: str, crowd) -> None:
    walkers = crowd.Crowd.on(place, MOTIONS[motion], agents, seed=2, engine=engine)
    for _ in range(STEPS):
        walkers.step()
    options = walkers.outcomes.total()
    assert options > STEPS * agents / 30
    assert walkers.outcomes["timeout"] <= 0.02 * options
    assert walkers.longest_stand < walkers.timeout


@pytest.mark.parametrize(("place", "agents", "motion", "engine"), CASES[:4])
def test_a_step_in_which_nobody_is_in_the_way_is_planned_as_any_other(
    place: str, agents: int, motion: str, engine: str, crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, seen = traffic_module._unhindered, {True: 0, False: 0}

    def both(grid, walkers, closed=(), detour=None):
        monkeypatch.setattr(traffic_module, "_unhindered", lambda *args: ())
        copies = [replace(walker) for walker in walkers]
        slowly = plan(grid, copies, closed, detour)
        monkeypatch.setattr(traffic_module, "_unhindered", quick)
        joint = plan(grid, walkers, closed, detour)
        assert (joint, [walker.grants for walker in walkers]) == (slowly, [copy.grants for copy in copies])
        seen[detour is None and bool(quick(grid.field(closed), walkers, len(grid.facings)))] += 1
        return joint

    monkeypatch.setattr(crowd, "plan", both)
    walkers = crowd.Crowd.on(place, MOTIONS[motion], agents, seed=3, engine=engine)
    for _ in range(200):
        walkers.step()
    assert min(seen.values()) > 2


def test_without_making_way_the_crowd_jams(crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: the same crowd, each going round the others as if they were walls."""

    def selfish(grid, walkers, closed=(), detour=None):
        ways = []
        taken = {walker.pose // len(grid.facings) for walker in walkers}
        for walker in walkers:
            here = walker.pose // len(grid.facings)
            field = grid.field(grid.cells[cell] for cell in taken - {here})
            if walker.wish is Wish.GO:
                way = int(field.table(walker.adjacent).action[walker.target][walker.pose])
                after = walker.pose if way < 0 else int(field.successors[way, walker.pose])
                taken.add(after // len(grid.facings))
                ways.append(way)
            else:
                ways.append(ACT if walker.wish is Wish.ACT else -1)
        return traffic_module.Joint(tuple(ways))

    monkeypatch.setattr(crowd, "plan", selfish)
    walkers = crowd.Crowd.on("dead ends", FLAT, 4, seed=2, engine="sequential")
    for _ in range(STEPS):
        walkers.step()
    assert walkers.outcomes["timeout"] > 0.1 * walkers.outcomes.total()


def test_without_detours_the_corridor_jams(crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the search: making way one step ahead is not enough there."""
    monkeypatch.setattr(traffic_module, "find_detour", lambda *args: ())
    walkers = crowd.Crowd.on("corridor", COMPASS, 3, seed=2)
    for _ in range(STEPS):
        walkers.step()
    assert walkers.outcomes["timeout"] > 0.02 * walkers.outcomes.total()


def test_the_same_crowd_goes_the_same_way(crowd) -> None:
    one, two = (crowd.Crowd.on("orchard", DRIVING, 7, seed=5, engine="sequential") for _ in range(2))
    for _ in range(200):
        one.step()
        two.step()
        assert (one.poses, one.detour) == (two.poses, two.detour)


def row_of(cells: int) -> Grid:
    return Grid([(x, 0) for x in range(cells)], COMPASS)


def test_one_that_stands_in_the_way_moves_off_and_one_that_never_moves_is_gone_round() -> None:
    grid = Grid([(x, y) for x in range(3) for y in range(2)], FLAT)
    goal = grid.target_index[2, 0]
    go = Walker(Wish.GO, grid.pose(Pose(0, 0)), goal, adjacent=False)
    pushed = plan(grid, [go, Walker(Wish.HOLD, grid.pose(Pose(1, 0)))])
    assert pushed.ways[1] != -1
    round_ = plan(grid, [go, Walker(Wish.FIXED, grid.pose(Pose(1, 0)))])
    assert grid.primitive(go.pose, round_.ways[0]) == "S"
    assert round_.ways[1] == -1


def test_a_place_that_nobody_can_make_free_is_hopeless() -> None:
    """Two in a corridor without a bay: neither can get past the other, whatever it does."""
    grid = row_of(4)
    lead = Walker(Wish.GO, grid.pose(Pose(1, 0, "E")), grid.target_index[3, 0], adjacent=False, rank=(0, 0))
    other = Walker(Wish.HOLD, grid.pose(Pose(2, 0, "W")), rank=(1, 0))
    detour: Detour | None = None
    for _ in range(8):
        joint = plan(grid, [lead, other], (), detour)
        if joint.hopeless >= 0:
            break
        for walker, way in zip((lead, other), joint.ways, strict=True):
            walker.pose = walker.pose if way < 0 else int(grid.field().successors[way, walker.pose])
        detour = joint.detour
    assert joint.hopeless == 0
    assert plan(Grid([*grid.cells, (1, 1)], COMPASS), [lead, other]).hopeless == -1


def test_one_that_acts_may_do_so_twice_before_it_makes_way() -> None:
    grid = Grid([(0, 0), (1, 0), (2, 0), (1, 1)], FLAT)
    lead = Walker(Wish.GO, grid.pose(Pose(0, 0)), grid.target_index[2, 0], adjacent=False, rank=(0, 0))
    acting = Walker(Wish.ACT, grid.pose(Pose(1, 0)), grid.target_index[1, -1], rank=(1, 0))
    ways = [plan(grid, [lead, acting]).ways[1] for _ in range(3)]
    assert ways[:2] == [ACT, ACT]
    assert grid.primitive(acting.pose, ways[2]) == "S"
    assert lead.grants == 2
