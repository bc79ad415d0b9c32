"""Checks of seeds: the same gives the same, in this process and in another; a different one does not."""

from __future__ import annotations

import os
import subprocess
import sys

from potluck_envs.conformance.plan import Broken, Played, Player, any_instance

FORKS = 3
FOREIGN_TIMEOUT = 120


def same_seed_same_trajectory(player: Player) -> str:
    """Every seed twice, with another episode in between: equal step by step to the end."""
    compared = 0
    for seed in player.plan.seeds:
        first = player.play(seed)
        player.play(seed + 1000)
        second = player.play(seed)
        compared += _compare(seed, first, second)
    return f"{player.plan.episodes} seeds twice, {compared} steps compared"


def same_seed_same_trajectory_elsewhere(player: Player) -> str:
    """A fresh process with another hash seed comes to the same digest."""
    seed = player.plan.seeds[0]
    here = player.play(seed).digest
    command = [sys.executable, "-m", "potluck_envs.conformance.elsewhere", player.game, str(seed), str(player.horizon)]
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=FOREIGN_TIMEOUT, check=False
    )
    if done.returncode != 0:
        raise Broken(f"the game could not be played in a process of its own: {done.stderr.strip()[-300:]}")
    if done.stdout.strip() != here:
        raise Broken(f"seed {seed} comes to another trajectory in another process (hash order? unseeded randomness?)")
    return f"seed {seed}, {player.horizon} steps in another process"


def different_seeds_differ(player: Player) -> str:
    """Seeds and reseeds both reach the game's randomness, or it has none."""
    seeds = list(player.plan.seeds)
    seeds += range(seeds[-1] + 1, seeds[0] + max(FORKS, len(seeds)) + 1)
    by_place = [player.play(seed) for seed in seeds[:2]]
    if _words(by_place[0]) == _words(by_place[1]):
        raise Broken(f"seeds {seeds[0]} and {seeds[1]} come to the same menus in the same order")
    base = player.finish(player.start(seeds[0]), 0, any_instance)
    others = [player.finish(player.start(seed), 0, any_instance) for seed in seeds[1:]]
    seeded = any(_course(base) != _course(other) for other in others)
    forks = [player.finish(player.fork(base.recording, 0, reseed), 0, any_instance) for reseed in range(1, FORKS + 1)]
    reseeded = any(_course(base) != _course(fork) for fork in forks)
    if reseeded and not seeded:
        raise Broken("the game has randomness, as forks show, but its seed does not reach it")
    if seeded and not reseeded:
        raise Broken("the game has randomness, as seeds show, but reseed does not reach it")
    nature = "random" if seeded else "deterministic but for menu order"
    return f"{len(others)} other seeds and {FORKS} reseeds; the game is {nature}"


def _compare(seed: int, first: Played, second: Played) -> int:
    for number, (one, other) in enumerate(zip(first.steps, second.steps, strict=False)):
        if one != other:
            raise Broken(f"seed {seed} diverges from itself at step {number}")
    if len(first.steps) != len(second.steps) or first.digest != second.digest:
        raise Broken(f"seed {seed} came to {first.digest[:12]} and to {second.digest[:12]}")
    return len(first.steps)


def _course(played: Played) -> list[bytes]:
    return [step.SerializeToString(deterministic=True) for step in played.steps]


def _words(played: Played) -> list[list[str]]:
    return [[item.word for item in point.prompt.items] for menus in played.menus for point in menus.decisions]
