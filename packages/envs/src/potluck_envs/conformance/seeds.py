"""Checks of seeds: the same gives the same, in this process and in another; a different one does not."""

from __future__ import annotations

import os
import subprocess
import sys

from potluck_envs.conformance.plan import Broken, Played, Player, any_instance

FEW = range(1, 4)
MANY = range(4, 40)
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
    first = player.plan.first_seed
    if _words(player.play(first)) == _words(player.play(first + 1)):
        raise Broken(f"seeds {first} and {first + 1} come to the same menus in the same order")
    base = player.finish(player.start(first), 0, any_instance)
    course = _course(base)

    def seeded(number: int) -> bool:
        return _course(player.finish(player.start(first + number), 0, any_instance)) != course

    def reseeded(number: int) -> bool:
        return _course(player.finish(player.fork(base.recording, 0, number), 0, any_instance)) != course

    by_seed, by_reseed = (any(differs(number) for number in FEW) for differs in (seeded, reseeded))
    # What shows by one way and not yet by the other may be rare, such as a tie that has to be broken.
    if by_reseed and not by_seed and not any(map(seeded, MANY)):
        raise Broken("the game has randomness, as forks show, but its seed does not reach it")
    if by_seed and not by_reseed and not any(map(reseeded, MANY)):
        raise Broken("the game has randomness, as seeds show, but reseed does not reach it")
    nature = "random" if by_seed or by_reseed else "deterministic but for menu order"
    return f"{len(FEW)} other seeds and {len(FEW)} reseeds; the game is {nature}"


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
