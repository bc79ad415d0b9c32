"""Mines the guard libraries that ship with the package: `python -m potluck_envs.overcooked.mine_guards [layout ...]`.

Each library comes from a burn-in of the layout itself (solo and team) and a solo burn-in of its probe kitchen. The
same plan gives the same bytes; `potluck-optionlib remine overcooked/<layout>` plays the certificate's plan again and
compares them with what ships.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from potluck_envs.overcooked import PREFIX, provider, two_player_layouts
from potluck_optionlib.burnin import Burnin, BurninPlan, run
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.mining import mine

PLAN = BurninPlan(solo_episodes=2000, team_episodes=2000, seed=0)
"""As long as the paper's: short burn-ins miss rare successes that partners make possible on the way."""
PROBE_PLAN = BurninPlan(solo_episodes=60, team_episodes=0, seed=0)


def plans(layout: str) -> Mapping[str, BurninPlan]:
    """What a layout's library is mined from: plans by the game's name, in the certificate's order."""
    name = PREFIX + layout
    return {name: PLAN, f"{name}/probe": PROBE_PLAN}


def burnins(layout: str) -> list[Burnin]:
    """Plays a layout's plans."""
    return [run(provider.make(name), plan) for name, plan in plans(layout).items()]


def mine_layout(layout: str, plan: BurninPlan | None = None, probe_plan: BurninPlan | None = None) -> GuardLibrary:
    """The guard library of one layout, by its own plans or by others."""
    own, probe = plans(layout).items()
    return mine([run(provider.make(own[0]), plan or own[1]), run(provider.make(probe[0]), probe_plan or probe[1])])


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
