"""Seven agents choosing uniformly from menus on Melting Pot, beside engines that only play the same actions.

    python benchmarks/meltingpot_play.py [--episodes N] [--horizon N]

One core, CPU time. "Play" is state, options and menus as an episode needs them: menus with texts and distances,
planning for all, effects, records. The engine's share is the time inside its `step`, in this process; the planners'
share that of the joint plan. Beside it, for the actions of the last episode: "bare" is this package's engine with
symbolic frames, "raw" the same level without any observation, "stock" the environment that Melting Pot's own builder
makes and everybody else steps, with its pixels. Ratios hold on any machine, rates do not.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from meltingpot_engine import stock

import potluck_optionlib.joint_steps as joint_steps
from potluck_envs.meltingpot import provider
from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.engine import Engine
from potluck_envs.meltingpot.substrates import substrate
from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import build_menu

GAMES = ("meltingpot/clean_up", "meltingpot/commons_harvest__open")


class Clock:
    """Adds up CPU time inside functions."""

    def __init__(self) -> None:
        self.spent = 0.0

    def on(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent += time.process_time() - began

        return timed


def play(game: ContractGame, guards: GuardLibrary, seed: int, horizon: int, outcomes: Counter[str]) -> int:
    """One episode; the number of decisions."""
    game.reset(seed)
    rng, decisions = random.Random(seed), 0
    while game.steps < horizon:
        for agent in game.idle():
            menu = build_menu(game, agent, guards, rng)
            game.begin(agent, menu.instances[rng.randrange(len(menu.instances))])
            decisions += 1
        outcomes.update(end.outcome for end in game.step().ended)
    return decisions


def bare(name: str, log: tuple[tuple[str, ...], ...], seed: int) -> float:
    """Steps a second of the engine alone under the same actions."""
    engine = Engine(name, core=Core)
    engine.reset(seed)
    began = time.process_time()
    for actions in log:
        engine.step(actions)
    return len(log) / (time.process_time() - began)


def raw(name: str, log: tuple[tuple[str, ...], ...], seed: int) -> float:
    """Steps a second of the same level, nothing being looked at."""
    core, actions = Core(substrate(name), None, False), substrate(name).actions
    core.start(seed)
    moves = [bytes(map(actions.index, joint)) for joint in log]
    began = time.process_time()
    for joint in moves:
        core._play(joint)
    return len(log) / (time.process_time() - began)


def measure(name: str, episodes: int, horizon: int) -> None:
    """Prints one game's lines."""
    game, guards = provider.make(name), GuardLibrary.parse(provider.guards(name))
    world: Any = game.world
    horizon = horizon or game.spec.default_horizon
    world._engine = Engine(name.rpartition("/")[2], core=Core)
    play(game, guards, 1_000, horizon, Counter())  # builds the engine and the tables
    engine, planner, outcomes, decisions = Clock(), Clock(), Counter[str](), 0
    world._engine.step = engine.on(world._engine.step)
    plan = joint_steps.plan
    joint_steps.plan = planner.on(plan)
    began = time.process_time()
    for seed in range(episodes):
        decisions += play(game, guards, seed, horizon, outcomes)
    spent = time.process_time() - began
    joint_steps.plan = plan
    steps, ended = episodes * horizon, outcomes.total()
    name_there, log, last = name.rpartition("/")[2], world._engine.actions_so_far, episodes - 1
    beside = {
        "bare": bare(name_there, log, last),
        "raw": raw(name_there, log, last),
        "stock": stock(substrate(name_there), [list(joint) for joint in log], True),
    }
    shares = f"engine {engine.spent / spent:.0%}, planners {planner.spent / spent:.0%}"
    late = f"time-outs {outcomes['timeout'] / ended:.2%} of {ended} executions"
    print(f"{name}: {decisions / spent:.0f} decisions/s, {steps / spent:.0f} joint steps/s; {shares}; {late}")
    told = [f"{kind} {rate:.0f} (play/{kind} {steps / spent / rate:.2f})" for kind, rate in beside.items()]
    print(f"  joint steps/s of engines alone: {', '.join(told)}", flush=True)


def main() -> None:
    """Both games."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=0, help="0 = the game's own")
    options = parser.parse_args()
    for name in GAMES:
        measure(name, options.episodes, options.horizon)


if __name__ == "__main__":
    main()
