"""Menus over random states of every layout: what is always true of them, and that a letter's place says nothing.

The default run draws a few dozen states per layout; `-m slow` (make test-slow) draws 200,000 over all layouts.
`POTLUCK_MENU_STATES` sets the number per layout.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.local import Table
from potluck_envs.overcooked import provider
from potluck_envs.seeds import from_seed, passing
from potluck_optionlib.game import Instance
from potluck_optionlib.guards import Channel, Guard, GuardLibrary
from potluck_optionlib.menus import LETTERS, Menu, build_menu, feasible, one_by_one

spec = importlib.util.spec_from_file_location("random_states", Path(__file__).with_name("random_states.py"))
assert spec is not None
assert spec.loader is not None
random_states = importlib.util.module_from_spec(spec)
sys.modules["random_states"] = random_states
spec.loader.exec_module(random_states)

STATES = int(os.environ.get("POTLUCK_MENU_STATES", "36"))
ALL_STATES = 200_000
EVERY = 8
"""Of this many states, one is asked of the engine, instance by instance."""
WAIT = Instance("wait")


class Place(NamedTuple):
    """One item of one menu, drawn by lot, and where it stood."""

    size: int
    letter: int
    type: str
    target: str
    greedy: int
    """Rank of its greedy value in the menu."""


@dataclass
class Tally:
    """What a run has seen."""

    menus: int = 0
    full: int = 0
    """Menus that were cut."""
    asked: int = 0
    """Instances offered that the engine was asked about."""
    not_now: Counter[str] = field(default_factory=Counter)
    """Of these, the ones that it would not do now, by option and features."""
    hidden: Counter[str] = field(default_factory=Counter)
    """Instances that the engine would do and the executor accepts, left out."""
    places: list[Place] = field(default_factory=list)


def check_layout(name: str, states: int, tally: Tally, seed: int = 1, library: GuardLibrary | None = None) -> None:
    """Draws states and holds the menus of both chefs to their promises."""
    game, scratch = provider.make(name), provider.make(name)
    library = library or GuardLibrary.parse(provider.guards(name))
    source = f"{from_seed(seed)} on {name}"  # no layout repeats another's draws, or menus would not be independent
    drawn = random_states.RandomStates(game.layout, source)
    lots = random.Random(f"lots of {source}")
    for number in range(states):
        state = drawn.draw()
        game.restore(state)
        for agent in range(game.spec.agents):
            kept = feasible(game, agent, library)
            menu = build_menu(game, agent, library, passing("menu", source, agent, number))
            check_menu(menu, kept, game)
            check_offers(game, agent, library, menu)
            if number % EVERY == 0:
                assert kept == one_by_one(game, agent, library)
                ask_engine(scratch, state, game, agent, kept, tally)
            tally.menus += 1
            tally.full += menu.cut > 0
            tally.places.append(place_of(menu, kept, lots))


def check_menu(menu: Menu, kept: list[Instance], game) -> None:
    """Never empty, nothing twice, `wait` there, and the cut rule."""
    assert menu.instances
    assert WAIT in menu.instances
    assert len(set(menu.instances)) == len(menu.instances) == len(set(menu.words)) == len(set(menu.letters))
    assert menu.letters == tuple(LETTERS[: len(menu.instances)])
    assert set(menu.instances) <= set(kept)
    assert len(menu.instances) == min(len(kept), 26)
    assert menu.cut == len(kept) - len(menu.instances)
    if not menu.cut:
        return
    assert {i.option for i in menu.instances} == {i.option for i in kept}
    steps = {i: game.view(menu.agent, i).steps for i in kept}
    for option in {i.option for i in kept}:
        there = [steps[i] for i in menu.instances if i.option == option]
        left = [steps[i] for i in kept if i.option == option and i not in menu.instances]
        assert not left or max(there) <= min(left)


def check_offers(game, agent: int, library: GuardLibrary, menu: Menu) -> None:
    """On offer is what is a candidate, the executor accepts and no guard forbids."""
    candidates = game.candidates(agent)
    assert set(menu.instances) <= set(candidates)
    for instance in menu.instances:
        if instance != WAIT:
            assert game.explicit(agent, instance) is None
            assert not library.forbids(instance.option, game.features(agent, instance))


def ask_engine(scratch, state, game, agent: int, kept: list[Instance], tally: Tally) -> None:
    """The engine's own word on each instance, on offer or not."""
    for instance in game.candidates(agent):
        if instance == WAIT:
            continue
        works = random_states.works_now(scratch, state, agent, instance)
        features = game.features(agent, instance)
        said = f"{instance.option} " + " ".join(f"{name}={value}" for name, value in features.items())
        if instance in kept:
            tally.asked += works is not None
            stands_by = instance.option == "plate_soup" and features["tgt_pot_state"] == "cooking"
            if works is False and not stands_by:
                tally.not_now[said] += 1
        elif works and game.explicit(agent, instance) is None:
            tally.hidden[said] += 1


def place_of(menu: Menu, kept: list[Instance], lots: random.Random) -> Place:
    """An item drawn by a lot of its own, so that menus count once and are independent."""
    instance = lots.choice(sorted(menu.instances, key=lambda i: (i.option, i.target)))
    letter = menu.instances.index(instance)
    better = sum(view.greedy > menu.views[letter].greedy for view in menu.views)
    return Place(len(menu.instances), letter, instance.option, instance.target, better)


def independence(places: list[Place], attribute: Callable[[Place], object]) -> list[float]:
    """p-values of "letter and attribute are independent", one per menu size that has enough menus."""
    by_size: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        by_size[place.size].append(place)
    found = []
    for size, group in sorted(by_size.items()):
        counts = Counter(attribute(place) for place in group)
        common = [value for value, count in counts.items() if count >= 5 * size]
        columns = {value: i for i, value in enumerate(common)}
        table = np.zeros((size, len(common) + 1))
        for place in group:
            table[place.letter, columns.get(attribute(place), len(common))] += 1
        if table[:, -1].sum() < 5 * size:
            table = table[:, :-1]
        if size > 1 and table.shape[1] > 1 and (table.sum(axis=1) > 0).all():
            found.append(float(chi2_contingency(table).pvalue))
    return found


ATTRIBUTES: dict[str, Callable[[Place], object]] = {
    "type": lambda place: place.type,
    "target": lambda place: place.target,
    "greedy": lambda place: place.greedy,
}


@pytest.fixture(scope="module")
def sampled() -> Tally:
    tally = Tally()
    for name in provider.names():
        check_layout(name, STATES, tally)
    return tally


def judge(tally: Tally) -> None:
    assert not tally.hidden, f"left out although they work: {tally.hidden}"
    # Not a fault: what a partner was seen to make possible on the way is offered before it is.
    assert sum(tally.not_now.values()) <= 0.05 * tally.asked, tally.not_now.most_common(20)
    p_values = [p for attribute in ATTRIBUTES.values() for p in independence(tally.places, attribute)]
    assert len(p_values) > 10
    assert min(p_values) > 0.001 / len(p_values)


def test_menus_of_random_states_of_every_layout(sampled: Tally) -> None:
    assert sampled.menus == 2 * STATES * len(provider.names())
    assert sampled.full > 0
    assert sampled.asked > sampled.menus / 8
    judge(sampled)


@pytest.mark.slow
def test_menus_of_two_hundred_thousand_random_states() -> None:
    tally, names = Tally(), provider.names()
    for name in names:
        check_layout(name, -(-ALL_STATES // len(names)), tally, seed=2)
    report = f"{tally.menus} menus, {tally.full} cut, {tally.asked} offers asked of the engine"
    print(report, f"not now: {sum(tally.not_now.values())} {tally.not_now.most_common(8)}, hidden: {tally.hidden}")
    for attribute, read in ATTRIBUTES.items():
        p_values = independence(tally.places, read)
        print(f"letter and {attribute}: {len(p_values)} sizes, least p {min(p_values):.4f}")
    judge(tally)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_an_unpermuted_menu_is_caught(attribute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test of independence: letters in the order of construction."""
    monkeypatch.setattr("potluck_optionlib.menus._shuffle", lambda rows, rng: None)
    places, lots = [], random.Random(0)
    name = "overcooked/asymmetric_advantages"
    game, library = provider.make(name), GuardLibrary.parse(provider.guards(name))
    drawn = random_states.RandomStates(game.layout, 3)
    for _ in range(600):
        game.restore(drawn.draw())
        menu = build_menu(game, 0, library, random.Random(0))
        places.append(place_of(menu, feasible(game, 0, library), lots))
    p_values = independence(places, ATTRIBUTES[attribute])
    assert min(p_values) < 1e-6 / len(p_values)


def test_a_guard_that_hides_what_works_is_caught() -> None:
    """The negative control of the engine's word."""
    tally, name = Tally(), "overcooked/cramped_room"
    shipped = GuardLibrary.parse(provider.guards(name))
    wrong = Guard(option="pick_onion", channel=Channel.INFERRED, when={"held": "none"}, support=9)
    check_layout(name, 30, tally, library=GuardLibrary(guards=(*shipped.guards, wrong)))
    assert tally.hidden["pick_onion held=none"] > 0


@pytest.mark.parametrize("name", provider.names())
def test_what_succeeds_was_on_offer(name: str) -> None:
    """Unguarded play: the menu of the moment held every option that then succeeded by its chef's own doing."""
    game, library, rng = provider.make(name), GuardLibrary.parse(provider.guards(name)), random.Random(5)
    game.reset(5)
    offered: dict[int, bool] = {}
    hidden = successes = 0
    while game.steps < 150:
        for agent in game.idle():
            instance = rng.choice(game.candidates(agent))
            offered[agent] = instance in feasible(game, agent, library)
            game.begin(agent, instance)
        for end in game.step().ended:
            if end.outcome == "success" and end.instance.option not in game.solo_only:
                successes += 1
                hidden += not offered[end.agent]
    assert successes > 10
    assert hidden == 0


def test_the_permutation_is_a_function_of_seed_agent_and_decision() -> None:
    name, seed = "overcooked/asymmetric_advantages", 11
    start = pb.Start(game=name, seed=seed, horizon=60)
    update = Table().send(pb.Command(episode_id="a", request_id="1", start=start))
    game, library = provider.make(name), GuardLibrary.parse(provider.guards(name))
    game.reset(seed)
    for agent, point in enumerate(update.menus.decisions):
        again = build_menu(game, agent, library, passing("menu", from_seed(seed), agent, 0))
        assert [(item.option, item.target) for item in point.prompt.items] == [
            (i.option, i.target) for i in again.instances
        ]
    keys = [(s, a, d) for s in (1, 2) for a in (0, 1) for d in range(40)]
    orders = {
        key: build_menu(game, 0, library, passing("menu", from_seed(key[0]), key[1], key[2])).instances for key in keys
    }
    assert len(set(orders.values())) == math.factorial(len(orders[keys[0]]))
    for key in keys[:5]:
        again = build_menu(game, 0, library, passing("menu", from_seed(key[0]), key[1], key[2]))
        assert again.instances == orders[key]
