"""The symbolic state is the engine's: frames against the states of the game's own objects, at every frame."""

import random

import numpy as np
import pytest

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.frame import Frames
from potluck_envs.meltingpot.level import level
from potluck_envs.meltingpot.substrates import SUBSTRATES, substrate

APPLE, DIRT, AVATAR = 1, 2, 3


@pytest.fixture(scope="module", params=sorted(SUBSTRATES))
def core(request):
    return request.param, Core(substrate(request.param), None, False)


def mismatches(frame, rows):
    """What a frame tells otherwise than the objects do."""
    said = {APPLE: set(), DIRT: set()}
    poses = []
    for kind, x, y, value in rows.reshape(-1, 4).astype(int).tolist():
        if kind == AVATAR:
            poses.append(None if value < 0 else (x, y, value))
        elif value:
            said[kind].add((x, y))
    found = [("apple", cell) for cell in said[APPLE] ^ frame.apples]
    found += [("dirt", cell) for cell in said[DIRT] ^ frame.dirt]
    return found + [("pose", i) for i, pose in enumerate(poses) if pose != frame.poses[i]]


def walk(core, name, frames, seed):
    """Frames of an episode with random primitives, in which moves are more frequent than in a uniform choice."""
    known, rng = substrate(name), random.Random(seed)
    made = Frames(level(name).width, level(name).height)
    choices = [
        i for i, action in enumerate(known.actions) for _ in range(3 if action in ("FORWARD", "FIRE_CLEAN") else 1)
    ]
    frame = made.begin(core.start(seed))
    yield frame
    for _ in range(frames):
        frame = made.go_on(frame, core.advance(bytes(rng.choice(choices) for _ in range(known.agents))))
        yield frame


@pytest.mark.parametrize("frames", [400, pytest.param(4000, marks=pytest.mark.slow)])
def test_every_frame_is_what_the_objects_say(core, frames):
    name, engine = core
    apples = dirt = out = 0
    for frame in walk(engine, name, frames, 11):
        assert mismatches(frame, engine.observe("WORLD.OBJECTS")) == []
        apples, dirt, out = apples + len(frame.apples), dirt + len(frame.dirt), out + frame.poses.count(None)
    compared = {"clean_up": dirt, "commons_harvest__open": apples}[name]
    assert compared > 10 * frames, "it compared something"
    assert out > 0, "agents that are out were seen, too"


def test_the_comparison_sees_a_wrong_apple_a_wrong_pose_and_wrong_dirt(core):
    name, engine = core
    frame = next(walk(engine, name, 0, 1))
    objects = engine.observe("WORLD.OBJECTS")
    site = next(iter(level(name).apple_sites))
    assert mismatches(frame._replace(apples=frame.apples ^ {site}), objects) == [("apple", site)]
    x, y, facing = frame.poses[3]
    turned = (*frame.poses[:3], (x, y, (facing + 1) % 4), *frame.poses[4:])
    assert mismatches(frame._replace(poses=turned), objects) == [("pose", 3)]
    assert mismatches(frame._replace(dirt=frame.dirt ^ {site}), objects) == [("dirt", site)]


def test_events_and_states_balance(core):
    """Things told to come and go lead from frame to frame, rewards are the apples eaten, each cleaning has one doer."""
    name, engine = core
    apples, dirt, eaten = set(), set(), 0
    for frame in walk(engine, name, 600, 5):
        rewards = [0.0] * 7
        for event in frame.events:
            cell = event.x, event.y
            if event.kind == "grow":
                assert cell not in apples
                apples.add(cell)
            elif event.kind == "dirt":
                assert cell not in dirt
                dirt.add(cell)
            elif event.kind == "eat":
                apples.remove(cell)
                rewards[event.agent] += 1
            elif event.kind == "clean":
                dirt.remove(cell)
                assert event.agent >= 0
            else:
                assert event.kind == "zap"
                assert frame.poses[int(event.object.removeprefix("agent_"))] is None
        assert (apples, dirt) == (frame.apples, frame.dirt)
        assert tuple(rewards) == frame.rewards
        eaten += sum(rewards)
    assert eaten > 0 or name == "clean_up"


def test_an_observation_with_pixels_is_rendered_when_asked_for(core):
    name, engine = core
    engine.start(1)
    world = level(name)
    assert engine.observe("WORLD.RGB").shape == (8 * world.height, 8 * world.width, 3)
    assert engine.observe("1.RGB").dtype == np.uint8
