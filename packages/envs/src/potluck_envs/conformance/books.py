"""Checks of the books: horizon, rewards and option records add up."""

from __future__ import annotations

import math
from collections import defaultdict

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.conformance.plan import Broken, Played, Player
from potluck_envs.native import OPTION


def horizon_is_exact(player: Player) -> str:
    """Exactly as many steps as asked, numbered without a gap."""
    horizons = sorted({1, 2, 7, player.horizon})
    for horizon in horizons:
        played = player.play(player.plan.first_seed, horizon=horizon)
        if played.finished.steps != horizon or not played.finished.truncated:
            raise Broken(f"asked for {horizon} steps, played {played.finished.steps}")
        if [step.step for step in played.steps] != list(range(horizon)):
            raise Broken(f"horizon {horizon}: step records are not 0 to {horizon - 1}")
    return f"horizons {', '.join(map(str, horizons))}"


def rewards_add_up(player: Player) -> str:
    """Returns are the sums of steps, the last one included; the team's is the agents' sum."""
    for seed in player.plan.seeds:
        played = player.play(seed)
        steps, finished = sum(step.reward for step in played.steps), played.finished
        if not math.isclose(steps, finished.team_return, abs_tol=1e-9):
            raise Broken(f"seed {seed}: steps pay {steps}, the return says {finished.team_return}")
        if not math.isclose(sum(finished.agent_returns), finished.team_return, abs_tol=1e-9):
            raise Broken(f"seed {seed}: agents have {list(finished.agent_returns)}, the team {finished.team_return}")
        _rewards_of_options(seed, played)
    return f"{player.plan.episodes} episodes"


def options_leave_no_gap(player: Player) -> str:
    """Each agent's options follow one another from the first step to the last."""
    options = 0
    for seed in player.plan.seeds:
        played = player.play(seed)
        ends: dict[str, int] = defaultdict(int)
        for option in sorted(played.options, key=lambda o: o.start_step):
            if option.start_step != ends[option.agent]:
                expected = ends[option.agent]
                raise Broken(
                    f"seed {seed}: {option.option} of {option.agent} starts at {option.start_step}, not {expected}"
                )
            ends[option.agent] += option.duration
            options += 1
        agents = player.library.info.agents
        if any(ends[agent] != played.finished.steps for agent in agents):
            raise Broken(f"seed {seed}: options end at {dict(ends)}, the episode at {played.finished.steps}")
    return f"{options} options"


def native_steps(player: Player) -> str:
    """Under INTERFACE_NATIVE every agent decides at every step, over the same letters."""
    if pb.INTERFACE_NATIVE not in player.library.info.interfaces:
        return "not offered by this game"
    seed, horizon = player.plan.first_seed, min(player.horizon, 30)
    played = player.finish(player.start(seed, horizon, pb.INTERFACE_NATIVE), seed)
    if len(played.menus) != horizon:
        raise Broken(f"{len(played.menus)} boundaries in {horizon} native steps")
    for menus in played.menus:
        for point in menus.decisions:
            first = played.menus[0].decisions[[p.agent for p in menus.decisions].index(point.agent)]
            if [item.target for item in point.prompt.items] != [item.target for item in first.prompt.items]:
                raise Broken(f"letters change their meaning at step {menus.step}")
    if any(option.option != OPTION or option.duration != 1 for option in played.options):
        raise Broken("a primitive took more than one step")
    return f"{horizon} steps"


def _rewards_of_options(seed: int, played: Played) -> None:
    by_step = {step.step: step.reward for step in played.steps}
    for option in played.options:
        paid = sum(by_step[step] for step in range(option.start_step, option.start_step + option.duration))
        if not math.isclose(paid, option.reward, abs_tol=1e-9):
            where = f"{option.option} of {option.agent} at step {option.start_step}"
            raise Broken(f"seed {seed}: {where} is booked with {option.reward}, its steps pay {paid}")
