"""Helpers: games of Melting Pot played by seeded choices."""

import random
from collections.abc import Callable, Sequence

from potluck_envs.meltingpot import provider
from potluck_optionlib.contract_game import ContractGame
from potluck_optionlib.game import Ended, Event, Instance, Step
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import Menu, build_menu

CLEAN_UP, HARVEST = "meltingpot/clean_up", "meltingpot/commons_harvest__open"
Chooser = Callable[[Menu, random.Random], int]


def anything(menu: Menu, rng: random.Random) -> int:
    """A uniform choice."""
    return rng.randrange(len(menu.instances))


def only(*options: str) -> Chooser:
    """A uniform choice among items of some options; `wait` where there is none."""

    def choose(menu: Menu, rng: random.Random) -> int:
        kept = [i for i, instance in enumerate(menu.instances) if instance.option in options]
        return rng.choice(kept or [i for i, instance in enumerate(menu.instances) if instance.option == "wait"])

    return choose


def library(name: str) -> GuardLibrary:
    """The shipped guards."""
    return GuardLibrary.parse(provider.guards(name))


def run(game: ContractGame, steps: int, choose: Chooser = anything, seed: int = 0) -> list[Step]:
    """Plays on for some steps under the shipped guards."""
    guards, rng, played = library(game.spec.name), random.Random(seed), []
    for _ in range(steps):
        for agent in game.idle():
            menu = build_menu(game, agent, guards, rng)
            game.begin(agent, menu.instances[choose(menu, rng)])
        played.append(game.step())
    return played


def ends(steps: Sequence[Step], option: str = "") -> list[Ended]:
    """Executions that ended."""
    return [end for step in steps for end in step.ended if not option or end.instance.option == option]


def events(steps: Sequence[Step], *kinds: str) -> list[Event]:
    """Events of some kinds."""
    return [event for step in steps for event in step.events if event.kind in kinds]


def play_until_end(game: ContractGame, agent: int, instance: Instance) -> tuple[list[Step], Ended]:
    """One agent's option to its end while the others wait."""
    game.begin(agent, instance)
    steps = []
    while True:
        for other in game.idle():
            game.begin(other, Instance("wait"))
        steps.append(game.step())
        for end in steps[-1].ended:
            if end.agent == agent:
                return steps, end
