"""Scripted players of primitives: they see whole frames and know nothing of options."""

from potluck_envs.meltingpot.level import level

STEPS = [(0, -1), (1, 0), (0, 1), (-1, 0)]
MOVES = ("FORWARD", "STEP_RIGHT", "BACKWARD", "STEP_LEFT")


def towards(pose, cell, rng):
    """A move that brings an agent nearer to a cell, or a random one now and then, so that nobody is stuck."""
    x, y, facing = pose
    ways = [side for side, (dx, dy) in enumerate(STEPS) if dx * (cell[0] - x) > 0 or dy * (cell[1] - y) > 0]
    if not ways:
        return "NOOP"
    side = rng.choice(ways) if rng.random() > 0.2 else rng.randrange(4)
    return MOVES[(side - facing) % 4]


def nearest(pose, cells):
    """The nearest of some cells, the first in reading order of columns."""
    px, py, _ = pose
    return min([(abs(x - px) + abs(y - py), x, y) for x, y in cells])[1:]


def greedy(name, frame, rng):
    """Everybody goes to the nearest apple, if there is one."""
    return [
        "NOOP" if pose is None or not frame.apples else towards(pose, nearest(pose, frame.apples), rng)
        for pose in frame.poses
    ]


def sparing(name, frame, rng):
    """Most of the time everybody wanders, so that apples are left for others to grow beside."""
    return [
        go if rng.random() < 0.2 else stroll
        for go, stroll in zip(greedy(name, frame, rng), wanderers(name, frame, rng), strict=True)
    ]


def cleaners(name, frame, rng):
    """Everybody goes to the nearest dirt and cleans what is in front."""
    joint = []
    for agent, pose in enumerate(frame.poses):
        if pose is None or not frame.dirt:
            joint.append("NOOP")
            continue
        cell = nearest(pose, frame.dirt)
        side = next((i for i, (dx, dy) in enumerate(STEPS) if cell == (pose[0] + dx, pose[1] + dy)), None)
        if side is None:
            joint.append(towards(pose, cell, rng))
        elif side != pose[2]:
            joint.append("TURN_RIGHT" if (side - pose[2]) % 4 == 1 else "TURN_LEFT")
        else:
            joint.append("FIRE_CLEAN" if frame.clean_wait[agent] == 0 else "NOOP")
    return joint


def wanderers(name, frame, rng):
    """Random primitives, no beams."""
    moves = [action for action in level(name).actions if not action.startswith("FIRE")]
    return [rng.choice(moves) for _ in frame.poses]


def anybody(name, frame, rng):
    """Uniform primitives."""
    return [rng.choice(level(name).actions) for _ in frame.poses]
