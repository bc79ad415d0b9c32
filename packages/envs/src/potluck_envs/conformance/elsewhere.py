"""Plays one seeded episode and prints its digest: the other process of a check."""

from __future__ import annotations

import sys

from potluck_envs.conformance.plan import Plan, Player


def main() -> None:
    """Arguments: game, seed, horizon."""
    game, seed, horizon = sys.argv[1:4]
    sys.stdout.write(Player(game, Plan(horizon=int(horizon))).play(int(seed)).digest + "\n")


if __name__ == "__main__":
    main()
