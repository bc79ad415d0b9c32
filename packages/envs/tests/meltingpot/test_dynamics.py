"""What must hold in the two commons, whoever plays: held against the real engine."""

import random

import players
import pytest

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.engine import Engine
from potluck_envs.meltingpot.level import level

NEEDED = 21
"""79 of 147 river cells are dirty at the start, and apples grow below 0.4 of them: below 59."""


@pytest.fixture(scope="module")
def clean_up():
    return Engine("clean_up", core=Core)


@pytest.fixture(scope="module")
def harvest():
    return Engine("commons_harvest__open", core=Core)


def episode(engine, player, steps, seed):
    """Frames of an episode."""
    rng = random.Random(seed)
    frames = [engine.reset(seed)]
    while len(frames) <= steps:
        frames.append(engine.step(player(engine.substrate.name, frames[-1], rng)))
    return frames


def grown_before(frames, cleaned_cells):
    """Apples that grew before so many cells had been cleaned."""
    cleaned = grown = 0
    for frame in frames:
        grown += sum(event.kind == "grow" for event in frame.events) if cleaned < cleaned_cells else 0
        cleaned += sum(event.kind == "clean" for event in frame.events)
    return grown, cleaned


def test_in_clean_up_no_apple_grows_before_21_cells_are_cleaned(clean_up):
    ripe = 0
    for seed in (1, 2):
        frames = episode(clean_up, players.cleaners, 150, seed)
        assert frames[0].apples == frozenset()
        assert len(frames[0].dirt) == 79
        grown, cleaned = grown_before(frames, NEEDED)
        assert grown == 0
        assert cleaned > NEEDED, "the river was cleaned far enough for the test to mean something"
        ripe += len(frames[-1].apples)
        assert grown_before(frames, 10**6)[0] > 0, "the same count does see apples that grow later"
    assert ripe > 0


def test_in_clean_up_a_team_that_never_cleans_earns_nothing(clean_up):
    frames = episode(clean_up, players.wanderers, 300, 3)
    assert sum(sum(frame.rewards) for frame in frames) == 0
    assert not any(frame.apples for frame in frames)


def revivals(frames, patches):
    """Patches that had no apple in two frames running and some in a later one.

    The engine draws growth by counts that are a step old: an apple may still grow in the step after the last was eaten.
    """
    empty, dead, back = set(), set(), []
    for frame in frames:
        for number, patch in enumerate(patches):
            alive = any(cell in frame.apples for cell in patch)
            if alive and number in dead:
                back.append((frame.step, number))
            if alive:
                empty.discard(number)
            elif number in empty:
                dead.add(number)
            else:
                empty.add(number)
    return back, dead


def test_in_harvest_an_empty_patch_never_recovers(harvest):
    patches, died = level("commons_harvest__open").patches(), 0
    for seed in (1, 2):
        frames = episode(harvest, players.greedy, 250, seed)
        back, dead = revivals(frames, patches)
        assert back == []
        died += len(dead)
        assert revivals([*frames, frames[0]], patches)[0], "the same count does see a patch that comes back"
    assert died > 0


def test_the_maps_are_those_that_the_audit_knows():
    clean, harvest = level("clean_up"), level("commons_harvest__open")
    assert (clean.width, clean.height, len(clean.dirt_sites), len(clean.apple_sites)) == (30, 21, 147, 122)
    assert (harvest.width, harvest.height, len(harvest.apple_sites)) == (24, 18, 64)
    assert sorted(map(len, harvest.patches())) == [6, 6, 13, 13, 13, 13]
    assert clean.dirt_sites <= clean.river()
    assert not clean.walls() & clean.floor()
    assert (clean.view.ahead, clean.view.behind, clean.view.left, clean.view.right) == (9, 1, 5, 5)


@pytest.mark.parametrize("horizon", [10, 37])
def test_a_horizon_is_exact(horizon):
    engine = Engine("commons_harvest__open", horizon)
    frames = episode(engine, players.anybody, horizon, 1)
    assert [frame.done for frame in frames] == [False] * horizon + [True]
    engine.close()


def test_the_substrates_own_ending_comes_at_a_hundred_after_the_thousandth_step():
    engine = Engine("commons_harvest__open", stochastic_ending=True, core=Core)
    ends = set()
    for seed in range(3):
        frame = engine.reset(seed)
        while not frame.done:
            frame = engine.step(["NOOP"] * 7)
            assert frame.step <= 5000
        ends.add(frame.step)
    assert all(step >= 1000 and (step + 1) % 100 == 0 for step in ends)
    assert len(ends) > 1, "chance decides"
