"""Menus: guards, permutation, words, the cut."""

import random
from collections import Counter

import pytest

from potluck_optionlib import menus
from potluck_optionlib.errors import ContractError
from potluck_optionlib.game import Instance
from potluck_optionlib.guards import NO_GUARDS, Channel, Guard, GuardLibrary
from potluck_optionlib.menus import build_menu

WAIT = Instance("wait")


def library(**when: str) -> GuardLibrary:
    return GuardLibrary(guards=(Guard(option="grab", channel=Channel.INFERRED, when=when, support=9),))


def test_explicit_failures_are_checked_live_even_without_guards(toy) -> None:
    game = toy.ToyGame()
    offered = build_menu(game, 0, NO_GUARDS, random.Random(0)).instances
    assert Instance("toss") not in offered
    game.held[0] = "ball"
    assert Instance("toss") in build_menu(game, 0, NO_GUARDS, random.Random(0)).instances


def test_guards_apply_to_the_present_features(toy) -> None:
    game = toy.ToyGame()
    game.held = ["ball", ""]
    offered = [
        {i.option for i in build_menu(game, a, library(held="ball"), random.Random(0)).instances} for a in (0, 1)
    ]
    assert "grab" not in offered[0]
    assert "grab" in offered[1]


def test_a_conjunction_needs_all_its_literals(toy) -> None:
    game = toy.ToyGame()
    game.held = ["ball", ""]
    both = library(held="ball", hour="even")
    assert "grab" not in {i.option for i in build_menu(game, 0, both, random.Random(0)).instances}
    game.steps = 1
    assert "grab" in {i.option for i in build_menu(game, 0, both, random.Random(0)).instances}


def test_the_permutation_follows_the_generator_and_spreads(toy) -> None:
    game = toy.ToyGame()
    menus = [build_menu(game, 0, NO_GUARDS, random.Random(seed)) for seed in range(400)]
    assert menus[0] == build_menu(game, 0, NO_GUARDS, random.Random(0))
    places = Counter(menu.instances.index(WAIT) for menu in menus)
    assert len(places) == len(menus[0].instances)
    assert min(places.values()) > 400 / len(places) / 2
    assert len({menu.digest for menu in menus}) > 50


def test_words_count_instances_in_map_order(toy) -> None:
    game = toy.ToyGame(balls=6)
    menu = build_menu(game, 0, NO_GUARDS, random.Random(3))
    named = {i.target: word for i, word in zip(menu.instances, menu.words, strict=True) if i.option == "grab"}
    assert named == {
        "(0,0)": "grab1",
        "(1,0)": "grab2",
        "(2,0)": "grab3",
        "(3,0)": "grab4",
        "(0,1)": "grab5",
        "(1,1)": "grab6",
    }
    words = dict(zip([i.option for i in menu.instances], menu.words, strict=True))
    assert words["wait"] == "wait"
    assert words["ring"] == "ring1"


def test_the_cut_keeps_every_type_and_the_nearest(toy) -> None:
    game = toy.ToyGame(balls=40)
    game.held[0] = "ball"
    menu = build_menu(game, 0, NO_GUARDS, random.Random(0))
    assert len(menu.instances) == 26
    assert menu.cut == 17
    assert {"toss", "ring", "wait"} <= {i.option for i in menu.instances}
    kept = [v.steps for v in menu.views if v.stem == "grab"]
    left = sorted(game.view(0, i).steps for i in game.candidates(0) if i.option == "grab")
    assert sorted(kept) == left[: len(kept)]
    assert len(build_menu(game, 0, NO_GUARDS, random.Random(0), limit=4).instances) == 4


def test_letters_name_places(toy) -> None:
    menu = build_menu(toy.ToyGame(), 0, NO_GUARDS, random.Random(0))
    assert menu.letters == tuple("ABCDE")
    assert [menu.find(letter) for letter in ("A", "E", "F", "a", "", "AB")] == [0, 4, None, None, None, None]


def test_more_types_than_places_is_an_error_and_never_a_menu_without_wait(toy) -> None:
    """Hiding a whole type, `wait` first of all, would be a silent guard."""
    game = toy.ToyGame()
    game.held[0] = "ball"
    types = {instance.option for instance in build_menu(game, 0, NO_GUARDS, random.Random(0)).instances}
    assert len(types) == 4
    for seed in range(20):
        kept = build_menu(game, 0, NO_GUARDS, random.Random(seed), limit=4).instances
        assert {instance.option for instance in kept} == types
    with pytest.raises(ContractError, match="4 option types are feasible at once and a menu has 3 places"):
        build_menu(game, 0, NO_GUARDS, random.Random(0), limit=3)
    for limit in (0, -1, 27):
        with pytest.raises(ValueError, match="give 1 to 26"):
            build_menu(game, 0, NO_GUARDS, random.Random(0), limit=limit)


def test_items_are_permuted_by_the_draws_of_shuffle() -> None:
    for seed in range(200):
        ours, pythons = random.Random(seed), random.Random(seed)
        items, others = list(range(seed % 27)), list(range(seed % 27))
        menus._shuffle(items, ours)
        pythons.shuffle(others)
        assert (items, ours.getstate()) == (others, pythons.getstate())
