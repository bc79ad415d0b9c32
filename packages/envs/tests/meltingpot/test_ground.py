"""What is worked out from a map: views, reach, beams and places, held against the engine where it can tell."""

import random

import pytest
from commons_play import CLEAN_UP, HARVEST

from potluck_envs.meltingpot import clean_up, harvest
from potluck_envs.meltingpot.engine import Engine
from potluck_envs.meltingpot.ground import FACINGS, REACH, ground

PARTS = [CLEAN_UP.partition("/")[2], HARVEST.partition("/")[2]]


@pytest.fixture(params=PARTS)
def here(request):
    return ground(request.param)


def test_sets_of_cells_are_numbers_that_list_them_in_reading_order(here):
    cells = random.Random(0).sample(sorted(here.floor), 20)
    assert list(here.listed(here.mask(cells))) == sorted(cells, key=lambda cell: (cell[1], cell[0]))


def test_a_view_is_eleven_by_eleven_with_nine_rows_ahead_and_one_behind():
    here = ground("commons_harvest__open")
    assert set(here.listed(here.views[12, 10, 0])) == {(x, y) for x in range(7, 18) for y in range(1, 12)}
    assert set(here.listed(here.views[12, 10, 1])) == {(x, y) for x in range(11, 22) for y in range(5, 16)}


def test_reach_is_by_walking(here):
    cell = sorted(here.floor)[100]
    near = set(here.listed(here.near[cell]))
    assert near == {other for other in here.floor if here.steps(cell, other) <= REACH}
    assert all(here.steps(cell, other) >= abs(cell[0] - other[0]) + abs(cell[1] - other[1]) for other in here.floor)


def test_shots_come_in_the_order_of_walk_and_turn(here):
    rng = random.Random(1)
    for _ in range(10):
        (x, y), target, facing = rng.choice(sorted(here.floor)), rng.choice(sorted(here.floor)), rng.randrange(4)
        costs = []
        for shot in here.shots((x, y, facing), target):
            turn = (FACINGS.index(shot.pose.facing) - facing) % 4
            costs.append(here.steps((x, y), (shot.pose.x, shot.pose.y)) + min(turn, 4 - turn))
        assert costs == sorted(costs)
        assert len(costs) <= 36


@pytest.mark.parametrize("blocked", [0.0, 0.3, 0.9])
def test_aims_are_the_shots_past_what_blocks(here, blocked):
    rng, floor = random.Random(2), sorted(here.floor)
    for _ in range(200):
        target, blocking = rng.choice(floor), here.mask(cell for cell in floor if rng.random() < blocked)
        near = [cell for cell in floor if here.steps(cell, target) <= 12]
        stance = (*rng.choice(near), rng.randrange(4))
        free = [shot.pose for shot in here.shots(stance, target) if not shot.before & blocking]
        assert list(here.aims(stance, target, blocking)) == free
        [steps] = here.soonest(stance, [target], blocking)
        turn = (FACINGS.index(free[0].facing) - stance[2]) % 4
        assert steps == here.steps(stance[:2], (free[0].x, free[0].y)) + min(turn, 4 - turn)


def test_the_engine_beams_hit_what_shots_say():
    """Every shot that is fired hits what its rays meet first, and nothing else."""
    engine, here, rng = Engine("clean_up"), ground("clean_up"), random.Random(2)
    frame, fired, cleaned = engine.reset(5), 0, 0
    while fired < 60:
        ready = [i for i in range(7) if frame.clean_wait[i] == 0]
        fires = rng.choice(ready) if ready and engine.frame.step % 3 == 0 else -1
        moves = ["FORWARD", "FORWARD", "TURN_LEFT", "STEP_RIGHT", "STEP_LEFT"]
        frame = engine.step(
            ["FIRE_CLEAN" if i == fires else rng.choice(moves) if fires < 0 else "NOOP" for i in range(7)]
        )
        if fires < 0:
            continue
        fired += 1
        stance = frame.poses[fires]
        hit = {(e.x, e.y) for e in frame.events if e.kind == "clean"}
        dirt = here.mask(frame.dirt | hit) & ~here.mask((e.x, e.y) for e in frame.events if e.kind == "dirt")
        around = [cell for cell in here.floor if here.steps(stance[:2], cell) <= 4 and dirt & here.bit[cell]]
        meant = {
            cell
            for cell in around
            for shot in here.shots(stance, cell)
            if shot.pose == here.poses[stance] and not shot.before & dirt
        }
        assert hit == meant
        cleaned += len(hit)
    assert cleaned > 20


def test_river_and_orchard_are_three_stretches_each():
    river, orchard = clean_up.stretches("clean_up")
    level = ground("clean_up").level
    assert frozenset().union(*(place.cells for place in river)) == level.dirt_sites
    assert level.apple_sites <= frozenset().union(*(place.cells for place in orchard))
    assert [place.name for place in (*river, *orchard)] == [f"{n}{i}" for n in ("river", "orchard") for i in (1, 2, 3)]
    assert sum(len(place.cells) for place in orchard) == len(frozenset().union(*(p.cells for p in orchard)))


def test_patches_do_not_overlap_and_hold_all_apples():
    patches = harvest.patches("commons_harvest__open")
    cells = [cell for place in patches for cell in place.cells]
    assert len(patches) == 6
    assert len(cells) == len(set(cells))
    assert ground("commons_harvest__open").level.apple_sites <= set(cells)
