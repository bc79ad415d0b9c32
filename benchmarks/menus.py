"""Menu building per decision on Overcooked: the quick way beside asking instance by instance, in one run.

    python benchmarks/menus.py
    python benchmarks/menus.py --game overcooked/counter_circuit_o_1order --decisions 4000

The same random play under the shipped guards, each menu built both ways in turns, so that a busy machine touches both
alike. Times are of CPU.
"""

import argparse
import random
import time

from potluck_envs.overcooked import provider
from potluck_envs.seeds import from_seed, passing
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import build_menu, feasible, one_by_one

GAMES = ("asymmetric_advantages", "forced_coordination", "cramped_room", "counter_circuit_o_1order")


def measure(name: str, decisions: int) -> dict[str, float]:
    """Microseconds a decision, by what is done, and items a menu."""
    game, library = provider.make(name), GuardLibrary.parse(provider.guards(name))
    rng, spent = random.Random(0), dict.fromkeys(("quick", "one by one", "menu"), 0.0)
    made = items = seed = 0
    game.reset(seed)
    while made < decisions:
        for agent in game.idle():
            for way, build in (("quick", feasible), ("one by one", one_by_one)):
                began = time.process_time()
                build(game, agent, library)
                spent[way] += time.process_time() - began
            began = time.process_time()
            menu = build_menu(game, agent, library, passing("menu", from_seed(seed), agent, made))
            spent["menu"] += time.process_time() - began
            made += 1
            items += len(menu.instances)
            game.begin(agent, rng.choice(menu.instances))
        game.step()
        if game.steps >= 400:
            seed += 1
            game.reset(seed)
    return {**{way: 1e6 * seconds / made for way, seconds in spent.items()}, "items": items / made}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", action="append", help="full name; may be given more than once")
    parser.add_argument("--decisions", type=int, default=3000)
    options = parser.parse_args()
    head = f"{'game':<40}{'items':>7}{'quick us':>10}{'one by one us':>15}{'ratio':>7}{'whole menu us':>15}"
    print(head)
    for name in options.game or [f"overcooked/{layout}" for layout in GAMES]:
        measure(name, 200)
        row = measure(name, options.decisions)
        ratio = row["one by one"] / row["quick"]
        numbers = (
            f"{row['items']:>7.1f}{row['quick']:>10.1f}{row['one by one']:>15.1f}{ratio:>7.1f}{row['menu']:>15.1f}"
        )
        print(f"{name:<40}{numbers}")


if __name__ == "__main__":
    main()
