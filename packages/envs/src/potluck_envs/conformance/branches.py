"""Checks of forks and replays: exact where randomness is kept, different where it is not, and free of leaks."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from potluck.rpc.errors import PotluckError, Reason
from potluck_envs.conformance.plan import Broken, Played, Player


def fork_repeats_the_original(player: Player) -> str:
    """From several boundaries of a recording: with the original's choices, the original's digest."""
    forks = compared = 0
    for seed in player.plan.seeds:
        original = player.play(seed)
        for boundary in _boundaries(original):
            with _told_as(f"seed {seed}: a fork from boundary {boundary} does not repeat the original"):
                fork = player.finish(player.fork(original.recording, boundary), 0, choices=original.recording.choices)
                if fork.digest != original.digest:
                    raise Broken(_first_difference(original, fork))
            forks += 1
            compared += len(fork.steps)
    return f"{forks} forks, {compared} steps compared"


def fork_leaves_the_original_alone(player: Player) -> str:
    """A running episode goes on as if it had not been forked, and as often as one likes."""
    forks = 0
    for seed in player.plan.seeds:
        undisturbed = player.play(seed)
        stops = set(_boundaries(undisturbed))
        forks += 3 * len(stops)
        with _told_as(f"seed {seed}: being forked has changed a running episode"):
            digest = _fork_and_go_on(player, seed, stops)
            if digest != undisturbed.digest:
                raise Broken(f"it came to {digest[:12]}, not {undisturbed.digest[:12]}")
    return f"{forks} forks of running episodes"


def _fork_and_go_on(player: Player, seed: int, stops: set[int]) -> str:
    rng, update = random.Random(seed), player.start(seed)
    while update.HasField("menus"):
        if update.menus.boundary in stops:
            for reseed in (None, 1, None):
                player.finish(player.fork(update.episode_id, update.menus.boundary, reseed), seed + 1)
        update = player.ok(player.choose(update, rng))
    return update.finished.recording.digest


def reseeded_forks_diverge(player: Player) -> str:
    """New randomness: different from the original and between numbers, the same for the same number."""
    for seed in player.plan.seeds:
        original = player.play(seed)
        boundary = len(original.menus) // 4
        one, two, again = (
            player.finish(player.fork(original.recording, boundary, reseed), seed).digest for reseed in (1, 2, 1)
        )
        if one != again:
            raise Broken(f"seed {seed}: the same reseed at boundary {boundary} came to two trajectories")
        if one == two:
            raise Broken(f"seed {seed}: reseeds 1 and 2 at boundary {boundary} came to the same trajectory")
    return f"3 forks of {player.plan.episodes} episodes"


def replay_repeats_the_digest(player: Player) -> str:
    """Recordings of episodes and of forks re-execute to their digest; a changed one is noticed."""
    steps = 0
    for seed in player.plan.seeds:
        original = player.play(seed)
        fork = player.finish(player.fork(original.recording, len(original.menus) // 2, 1), seed)
        for played in (original, fork):
            try:
                response = player.table.replay(played.recording, frames=True)
            except PotluckError as error:
                raise Broken(f"seed {seed}: {error.message}") from error
            if len(response.frames) != played.finished.steps + 1:
                raise Broken(f"seed {seed}: {len(response.frames)} frames for {played.finished.steps} steps")
            steps += response.steps
        _refuses_change(player, original)
    return f"{2 * player.plan.episodes} replays, {steps} steps"


def _refuses_change(player: Player, played: Played) -> None:
    recording = played.recording
    recording.digest = "0" * 64
    try:
        player.table.replay(recording)
    except PotluckError as error:
        if error.reason == Reason.REPLAY_DIVERGED:
            return
        raise Broken(f"a wrong digest was refused with {error.reason}") from error
    raise Broken("a recording with a wrong digest was replayed without complaint")


def _boundaries(played: Played) -> list[int]:
    last = len(played.menus) - 1
    return sorted({0, 1, last // 3, last // 2, last} & set(range(last + 1)))


@contextlib.contextmanager
def _told_as(promise: str) -> Iterator[None]:
    """A broken trajectory may also fail by a choice that is not on offer: the promise it breaks is the same."""
    try:
        yield
    except Broken as error:
        raise Broken(f"{promise}: {error}") from error


def _first_difference(original: Played, fork: Played) -> str:
    by_number = {step.step: step for step in original.steps}
    for step in fork.steps:
        if by_number.get(step.step) != step:
            return f"first difference at step {step.step}"
    return "the steps are equal, the engine's states are not"
