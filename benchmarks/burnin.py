"""Burn-in decisions per second beside the bare engine, in one run on one core.

    python benchmarks/burnin.py
    python benchmarks/burnin.py --layout cramped_room --episodes 40 --repeats 5

The layout's burn-in is played by the game protocol alone (`one_by_one`) and quickly (`KitchenBurnin`), solo and team,
to the last record in its columns; a decision is a record, that is, a finished option. Beside it stand the engine's own
`get_state_transition` and its three parts called in place on one state, under uniformly random primitives, in joint
steps. All ways take turns within each repeat and the best repeat counts, because the machine may be shared; rates are
per second of CPU, with the wall rate behind. The last column is against the 7.9k decisions/s of the paper's burn-in
(550k decisions in 70 s).
"""

import argparse
import os
import random
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

from potluck_envs.overcooked.engine import ACTIONS, Engine
from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.layout import load
from potluck_envs.overcooked.shim import EVENT_TYPES
from potluck_optionlib.burnin import BurninPlan, one_by_one
from potluck_optionlib.burnin.play import play_episode
from potluck_optionlib.burnin.records import Ledger

PAPER = 7.9e3
HORIZON = 400
Way = Callable[[int], int]
"""Plays a repeat, returns what it counted."""


def transitions(layout: str, steps: int) -> Way:
    """Joint steps by `get_state_transition`."""
    mdp = load(layout).mdp

    def play(repeat: int) -> int:
        Engine(load(layout))
        rng, state = random.Random(repeat), mdp.get_standard_start_state()
        joints = [(rng.choice(ACTIONS), rng.choice(ACTIONS)) for _ in range(steps)]
        for joint in joints:
            state, _ = mdp.get_state_transition(state, joint)
        return steps

    return play


def parts(layout: str, steps: int) -> Way:
    """Joint steps by the engine's parts, in place."""
    mdp = load(layout).mdp

    def play(repeat: int) -> int:
        Engine(load(layout))
        rng, state = random.Random(repeat), mdp.get_standard_start_state().deepcopy()
        joints = [(rng.choice(ACTIONS), rng.choice(ACTIONS)) for _ in range(steps)]
        flags = {kind: [False, False] for kind in EVENT_TYPES}
        for joint in joints:
            mdp.resolve_interacts(state, joint, flags)
            mdp.resolve_movement(state, joint)
            mdp.step_environment_effects(state)
        return steps

    return play


def burnin(game: OvercookedGame, episodes: int, solo: bool, quick: bool) -> Way:
    """Decisions."""

    def play(repeat: int) -> int:
        plan = BurninPlan(episodes, 0, repeat, HORIZON) if solo else BurninPlan(0, episodes, repeat, HORIZON)
        ledger = Ledger()
        for episode in range(episodes):
            if quick:
                play_episode(game, plan, episode, ledger)
            else:
                actor = plan.actor(episode, game.spec.agents)
                ledger.add(episode, solo, one_by_one(game, plan.episode_seed(episode), actor, HORIZON))
        return int(ledger.table().num_rows)

    return play


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layout", default="asymmetric_advantages")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    game, episodes, steps = make(args.layout), args.episodes, args.episodes * HORIZON // 4
    ways = {
        "get_state_transition, joint steps": transitions(args.layout, steps),
        "engine parts in place, joint steps": parts(args.layout, steps),
        "by the protocol, solo decisions": burnin(game, episodes, True, False),
        "by the protocol, team decisions": burnin(game, episodes, False, False),
        "quick, solo decisions": burnin(game, episodes, True, True),
        "quick, team decisions": burnin(game, episodes, False, True),
    }
    best = dict.fromkeys(ways, (0.0, 0.0))
    for way in ways.values():
        way(0)
    for repeat in range(1, args.repeats + 1):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            count = way(repeat)
            rates = (count / (time.process_time() - cpu), count / (time.perf_counter() - wall))
            best[name] = max(best[name], rates)
    bare = best["get_state_transition, joint steps"][0]
    print(f"{args.layout}, {episodes} episodes of {HORIZON} steps, best of {args.repeats}")
    print(f"{'':36s}{'per CPU s':>10s}{'per wall s':>11s}{'x transition':>13s}{'x 7.9k':>8s}")
    for name, (cpu, wall) in best.items():
        against = f"{cpu / PAPER:8.2f}" if "decisions" in name else ""
        print(f"{name:36s}{cpu:10.0f}{wall:11.0f}{cpu / bare:13.2f}{against}")


if __name__ == "__main__":
    main()
