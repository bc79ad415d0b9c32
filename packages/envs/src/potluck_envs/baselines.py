"""Policies that the env server plays by itself.

Beside the built-in ones, an entry point of the group `potluck.baselines` adds one: a function
`pick(menu: Menu, rng: random.Random) -> int` that returns the index of an item. `rng` is the decision's own generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.offers import Answer
from potluck_envs.seeds import generator
from potluck_optionlib.menus import Menu

GROUP = "potluck.baselines"

Baseline = int | str
"""A value of potluck.env.v1.Baseline, or a plug-in's name."""
Picker = Callable[[Menu, random.Random], int]


@cache
def plugins() -> dict[str, EntryPoint]:
    """Installed plug-in baselines by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP))}


@cache
def _picker(name: str) -> Picker:
    loaded: Picker = plugins()[name].load()
    return loaded


def as_message(agent: str, baseline: Baseline) -> pb.SeatBaseline:
    """The wire form."""
    if isinstance(baseline, str):
        return pb.SeatBaseline(agent=agent, baseline=pb.BASELINE_PLUGIN, plugin=baseline)
    return pb.SeatBaseline(agent=agent, baseline=pb.Baseline.ValueType(baseline))


def pick(baseline: Baseline, menu: Menu, source: str, decision: int) -> Answer:
    """The baseline's choice. Greedy ties go to the first letter, which the permutation has drawn."""
    rng = generator("uniform" if isinstance(baseline, int) else baseline, source, menu.agent, decision)
    if isinstance(baseline, str):
        index = range(len(menu.instances))[_picker(baseline)(menu, rng)]
    elif baseline == pb.BASELINE_UNIFORM:
        index = rng.randrange(len(menu.instances))
    else:
        index = max(range(len(menu.instances)), key=lambda i: (menu.views[i].greedy, -i))
    return Answer(menu.instances[index], menu.letters[index], menu.words[index])
