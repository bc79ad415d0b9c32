"""Two agents on one map: joint distances against a plain search, and promises that are kept step by step."""

import random
from collections import deque

import pytest

from potluck_optionlib.planners import (
    ACT,
    COMPASS,
    DRIVING,
    FAR,
    FLAT,
    STAY,
    Grid,
    Pairs,
    Partner,
    Pose,
    Wish,
    alone,
    lot,
    plan_pair,
)
from potluck_optionlib.planners import pairs as pairs_module
from potluck_optionlib.planners.motion import compass

MOST = 400


def searched(pairs: Pairs, pose: int, partner: int, target: int, adjacent: bool) -> int:
    """Least joint steps by forward search over (pose, partner's cell); the partner moves as it likes."""
    row, size = pairs.field.table(adjacent).row(target), pairs.size
    queue, seen = deque([(pose, partner, 0)]), {(pose, partner)}
    while queue:
        here, there, steps = queue.popleft()
        if row[here] == 0:
            return steps
        for _, after in pairs.moves[here]:
            for cell in (there, *pairs.field.neighbours[there]):
                swap = after // size == there and cell == here // size
                if after // size == cell or swap or (after, cell) in seen:
                    continue
                seen.add((after, cell))
                queue.append((after, cell, steps + 1))
    return FAR


@pytest.mark.parametrize("motion", [COMPASS, FLAT])
@pytest.mark.parametrize("adjacent", [True, False])
def test_joint_distances_are_least_steps_with_a_partner_that_makes_way(motion, adjacent, crowd) -> None:
    rng = random.Random(0)
    for name in ("corridor", "dead ends", "ring"):
        pairs = Pairs(Grid(crowd.floor(name), motion))
        cells = len(pairs.grid.cells)
        for _ in range(25):
            target, pose, partner = (rng.randrange(n) for n in (len(pairs.grid.targets), pairs.grid.size, cells))
            found = pairs.distance(target, adjacent)[pose][partner]
            if partner == pose // pairs.size:
                assert found == FAR
            else:
                assert found == searched(pairs, pose, partner, target, adjacent)


def test_motions_by_which_it_would_promise_too_much_are_refused(crowd) -> None:
    floor = crowd.floor("ring")
    for motion in (DRIVING, compass("NSEW", "stay", turn_first=True), compass("NSEW", "stay", following=False)):
        with pytest.raises(ValueError, match="Use `plan`"):
            Pairs(Grid(floor, motion))


def walk(pairs: Pairs, rng: random.Random) -> int:
    """Two agents with fresh targets; returns by how many steps the first in rank came later than promised."""
    size = pairs.size
    cells = rng.sample(range(len(pairs.grid.cells)), 2)
    poses = [cell * size + rng.randrange(size) for cell in cells]
    targets = [rng.randrange(len(pairs.grid.targets)) for _ in poses]
    promised = pairs.distance(targets[0])[poses[0]][cells[1]]
    if promised >= FAR or pairs.distance(targets[1])[poses[1]][cells[0]] >= FAR:
        return 0
    grants = [0, 0]
    for step in range(MOST):
        walkers = []
        for i, pose in enumerate(poses):
            there = pairs.field.beside.row(targets[i])[pose] == 0
            walkers.append(Partner(Wish.ACT if there else Wish.GO, pose, targets[i], True, (i, 0), grants[i]))
        ways = plan_pair(pairs, *walkers)
        if ways[0] == ACT:
            return step - promised
        after = [pairs.field.after(pose, way) for pose, way in zip(poses, ways, strict=True)]
        here, there_ = [pose // size for pose in poses], [pose // size for pose in after]
        assert there_[0] != there_[1]
        assert (there_[0], there_[1]) != (here[1], here[0])
        poses, grants = after, [walker.grants for walker in walkers]
        if ways[1] == ACT:
            targets[1] = rng.randrange(len(pairs.grid.targets))
            if pairs.distance(targets[1])[poses[1]][poses[0] // size] >= FAR:
                targets[1] = targets[0]
    return MOST


@pytest.mark.parametrize("name", ["corridor", "dead ends", "ring", "two rooms"])
def test_the_first_in_rank_arrives_as_promised_and_two_grants(name: str, crowd) -> None:
    pairs, rng = Pairs(Grid(crowd.floor(name), COMPASS)), random.Random(name)
    late = [walk(pairs, rng) for _ in range(60)]
    assert max(late) <= 2
    assert max(late) >= 0


def test_the_check_catches_a_planner_that_ignores_the_partner(crowd, monkeypatch) -> None:
    def blind(pairs, lead, other, lead_moves, other_moves):
        return alone(pairs, lead), STAY, 0

    pairs, rng = Pairs(Grid(crowd.floor("corridor"), COMPASS)), random.Random(0)
    monkeypatch.setattr(pairs_module, "_search", blind)
    with pytest.raises(AssertionError):
        assert max(walk(pairs, rng) for _ in range(60)) <= 2


def test_agents_in_rooms_of_their_own_are_not_asked_to_make_way() -> None:
    floor = [(x, y) for y in (0, 2) for x in range(4)]
    pairs = Pairs(Grid(floor, COMPASS))
    assert pairs.field.rooms == [0] * 4 + [4] * 4
    top, bottom = pairs.grid.pose(Pose(0, 0, "N")), pairs.grid.pose(Pose(3, 2, "N"))
    ways = plan_pair(pairs, Partner(Wish.GO, top, pairs.grid.target_index[4, 0]), Partner(Wish.HOLD, bottom))
    assert [pairs.grid.primitive(p, way) for p, way in zip((top, bottom), ways, strict=True)] == ["E", "stay"]


def test_a_partner_that_never_moves_is_gone_round(crowd) -> None:
    pairs = Pairs(Grid(crowd.floor("ring"), COMPASS))
    target = pairs.grid.target_index[4, 0]
    start, block = pairs.grid.pose(Pose(2, 1, "E")), pairs.grid.cell_index[3, 1]
    here, steps = start, 0
    while (way := alone(pairs, Partner(Wish.GO, here, target), block)) != STAY:
        here, steps = pairs.field.after(here, way), steps + 1
        assert here // pairs.size != block
    assert pairs.field.beside.row(target)[here] == 0
    assert steps == pairs.past(block).beside.row(target)[start] > pairs.field.beside.row(target)[start]


def test_lots_are_fair_and_never_tie() -> None:
    first = [lot(7, step, 0) for step in range(400)]
    assert all({lot(7, step, 0), lot(7, step, 1)} == {0, 1} for step in range(50))
    assert 150 < sum(first) < 250
    assert first == [lot(7, step, 0) for step in range(400)]
    assert first != [lot(8, step, 0) for step in range(400)]


def test_targets_beyond_the_floor_may_be_asked_for_and_are_far() -> None:
    grid = Grid([(0, 0), (1, 0)], COMPASS, beyond=[(9, 9)])
    assert set(grid.field().beside.row(grid.target_index[9, 9])) == {FAR}
    assert set(grid.field().beside.ways(grid.target_index[9, 9])) == {STAY}
