"""Plays episodes on an engine and prints what they came to, a JSON object a line: what parity is judged by.

    python episodes.py SUBSTRATE LUA EPISODES BUILDS FIRST_SEED

LUA: "ours", or a folder with another level (see `variant`). The stock engine aborts when it is started twice, so every
episode is played in a fork of a built engine. The stock engine's order of avatars and objects is drawn when it is
built, hence several builds.
"""

import json
import os
import random
import shutil
import sys
from importlib.resources import files
from pathlib import Path

STEPS = 200
STOCK = """
package.preload['components'] = function() return require 'meltingpot.lua.levels.{level}.components' end
local api = require 'meltingpot.lua.levels.{level}.init'
require 'potluck.symbolic_state'
{more}
return api
"""
"""The stock level with its own `pairs` and start; symbolic_state.lua only looks on."""
LEVELS = {"clean_up": "clean_up", "commons_harvest__open": "commons_harvest"}


def variant(folder, name, more=""):
    """A folder of Lua files with the stock level, or, with `more`, one that is not stock."""
    shutil.copytree(str(files("potluck_envs.meltingpot").joinpath("lua")), folder)
    Path(folder, "levels", name, "init.lua").write_text(STOCK.format(level=LEVELS[name], more=more))
    return folder


def contests(before, after, joint, floor):
    """Cells that exactly two agents wanted and nobody stood on: how often the one with the lower number got it."""
    from players import MOVES, STEPS

    wanted = {}
    for agent, (pose, action) in enumerate(zip(before.poses, joint, strict=True)):
        if pose is not None and action in MOVES:
            dx, dy = STEPS[(pose[2] + MOVES.index(action)) % 4]
            wanted.setdefault((pose[0] + dx, pose[1] + dy), []).append(agent)
    standing = {pose[:2] for pose in before.poses if pose}
    lower = upper = 0
    for cell, agents in wanted.items():
        if len(agents) == 2 and cell in floor and cell not in standing:
            there = [agent for agent in agents if after.poses[agent] and after.poses[agent][:2] == cell]
            lower += there == agents[:1]
            upper += there == agents[1:]
    return lower, upper


def episode(core, name, seed):
    """What one episode came to."""
    import players

    from potluck_envs.meltingpot.frame import Frames
    from potluck_envs.meltingpot.level import level

    known, rng = level(name), random.Random(seed)
    floor, number = known.floor(), {action: i for i, action in enumerate(known.actions)}
    player = {"clean_up": players.cleaners, "commons_harvest__open": players.sparing}[name]
    made = Frames(known.width, known.height)
    frame = made.begin(core.start(seed))
    counts = {"grow": 0, "dirt": 0, "clean": 0, "eat": 0, "zap": 0, "lower": 0, "upper": 0}
    told = {"spawns": [list(pose) for pose in frame.poses]}
    ripe = 0
    for _ in range(STEPS):
        joint = player(name, frame, rng)
        after = made.go_on(frame, core.advance(bytes(number[action] for action in joint)))
        lower, upper = contests(frame, after, joint, floor)
        counts["lower"] += lower
        counts["upper"] += upper
        for event in after.events:
            counts[event.kind] += 1
        ripe += len(after.apples)
        frame = after
    alive = sum(any(cell in frame.apples for cell in patch) for patch in known.patches())
    return told | counts | {"ripe": ripe, "apples": len(frame.apples), "dirty": len(frame.dirt), "alive": alive}


def main(name, lua, episodes, builds, first):
    """Plays and prints."""
    from potluck_envs.meltingpot.core import Core
    from potluck_envs.meltingpot.substrates import substrate

    for build in range(builds):
        core = Core(substrate(name), None, False, None if lua == "ours" else Path(lua))
        for number in range(build, episodes, builds):
            if pid := os.fork():
                assert os.waitpid(pid, 0)[1] == 0
            else:
                print(json.dumps(episode(core, name, first + number)), flush=True)
                os._exit(0)


if __name__ == "__main__":
    name, lua, *numbers = sys.argv[1:]
    main(name, lua, *map(int, numbers))
