"""Mines the guard libraries that ship with the package: `python -m potluck_envs.overcooked.mine_guards [layout ...]`.

Each library comes from a burn-in of the layout itself (solo and team) and a solo burn-in of its probe kitchen. The
same plan gives the same bytes, so a test can mine one again and compare.
"""

from __future__ import annotations

import sys
from pathlib import Path

from potluck_envs.overcooked import PREFIX, provider, two_player_layouts
from potluck_optionlib.burnin import BurninPlan, run
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.mining import mine

PLAN = BurninPlan(solo_episodes=150, team_episodes=150, seed=0)
PROBE_PLAN = BurninPlan(solo_episodes=60, team_episodes=0, seed=0)


def mine_layout(layout: str, plan: BurninPlan = PLAN, probe_plan: BurninPlan = PROBE_PLAN) -> GuardLibrary:
    """The guard library of one layout."""
    name = PREFIX + layout
    return mine([run(provider.make(name), plan), run(provider.make(f"{name}/probe"), probe_plan)])


def main() -> None:
    """Writes the libraries of the named layouts, or of all, into the package's source folder."""
    folder = Path(__file__).with_name("guards")
    folder.mkdir(exist_ok=True)
    for layout in sys.argv[1:] or two_player_layouts():
        library = mine_layout(layout)
        (folder / f"{layout}.json").write_text(library.dump(), "utf-8")
        print(f"{layout}: {len(library.guards)} guards, digest {library.digest[:12]}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
