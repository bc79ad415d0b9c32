"""Policies that the env server plays by itself."""

from __future__ import annotations

from potluck.env.v1 import env_service_pb2 as pb
from potluck_optionlib.menus import Menu

from potluck_envs.offers import Answer
from potluck_envs.seeds import generator

MENU_BASELINES = (pb.BASELINE_UNIFORM, pb.BASELINE_GREEDY)


def pick(baseline: int, menu: Menu, source: str, decision: int) -> Answer:
    """The baseline's choice. Greedy ties go to the first letter, which the permutation has drawn."""
    if baseline == pb.BASELINE_UNIFORM:
        index = generator("uniform", source, menu.agent, decision).randrange(len(menu.instances))
    else:
        index = max(range(len(menu.instances)), key=lambda i: (menu.views[i].greedy, -i))
    return Answer(menu.instances[index], menu.letters[index], menu.words[index])
