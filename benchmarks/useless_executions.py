"""How much of uniform play goes into executions that are valid and useless: what no guard can hide.

    python benchmarks/useless_executions.py
    python benchmarks/useless_executions.py --layouts cramped_room --episodes 200

Under the plain effect of `start_cooking` (the pot starts cooking) a chef may cook one onion, which delivers for
nothing; and under any effect it may put things on counters and take them up again without end. Both are certified
successes. Guards are mined here under each effect, then agents play uniformly over the guarded menus; shares are of
all finished executions, with "wait" beside them for comparison.
"""

import argparse
import os
import random
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.options import StartCookingEffect
from potluck_optionlib.burnin import BurninPlan, run
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import feasible
from potluck_optionlib.mining import mine

EFFECTS: tuple[StartCookingEffect, ...] = ("plain", "ordered")


def mined(layout: str, effect: StartCookingEffect, episodes: int) -> GuardLibrary:
    """Guards from the layout and its probe kitchen."""
    plans = {"": BurninPlan(episodes, episodes), "/probe": BurninPlan(episodes // 2, 0)}
    return mine([run(make(layout + kind, effect), plan) for kind, plan in plans.items()])


def played(game: OvercookedGame, guards: GuardLibrary, episodes: int) -> Counter[str]:
    """Executions by kind."""
    kinds: Counter[str] = Counter()
    for seed in range(episodes):
        rng = random.Random(seed)
        game.reset(seed)
        while game.steps < game.spec.default_horizon:
            for agent in game.idle():
                game.begin(agent, rng.choice(feasible(game, agent, guards)))
            cooking = {agent: state(game, agent) for agent in range(game.spec.agents)}
            for ended in game.step().ended:
                kinds["all"] += 1
                option = ended.instance.option
                if ended.outcome == "success":
                    part = option == "start_cooking" and cooking[ended.agent] in ("onion1", "onion2")
                    kinds["start_cooking, too few" if part else option] += 1
                else:
                    kinds["failed"] += 1
    return kinds


def state(game: OvercookedGame, agent: int) -> str:
    """What the pot holds that an agent is about to start, if it is about to."""
    running = game._running[agent]
    if running is None or running.instance.option != "start_cooking":
        return ""
    return game.features(agent, running.instance)["tgt_pot_state"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=["asymmetric_advantages", "forced_coordination"])
    parser.add_argument("--burnin-episodes", type=int, default=150)
    parser.add_argument("--episodes", type=int, default=40)
    options = parser.parse_args()
    shown = ("start_cooking, too few", "start_cooking", "drop_held", "pick_from_counter", "wait", "failed")
    print(f"{'':<34}{'all':>8}" + "".join(f"{name:>24}" for name in shown))
    for layout in options.layouts:
        for effect in EFFECTS:
            guards = mined(layout, effect, options.burnin_episodes)
            kinds = played(make(layout, effect), guards, options.episodes)
            shares = "".join(f"{kinds[name] / kinds['all']:>24.2%}" for name in shown)
            print(f"{layout + ', ' + effect:<34}{kinds['all']:>8}{shares}", flush=True)


if __name__ == "__main__":
    main()
