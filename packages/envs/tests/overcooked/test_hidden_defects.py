"""Contract defects that do not show by themselves in some play of a kitchen, each named by `check`, and their cures."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.layout import ONIONS, POT, Layout, load
from potluck_envs.overcooked.options import library
from potluck_optionlib.contracts import Change
from potluck_optionlib.game import Instance
from potluck_optionlib.validation import check

Instances = Callable[[OvercookedGame, int], Sequence[Instance]]


def under(layout: Layout, option: str, **fields: object) -> OvercookedGame:
    """A kitchen whose contract of one option has other fields."""
    kept = library(layout)
    contracts = (replace(c, **fields) if name == option else c for name, c in kept.items())  # type: ignore[arg-type]
    return OvercookedGame(layout, contracts=tuple(contracts))


def named(game: OvercookedGame, episodes: int = 3) -> set[tuple[str, str, str]]:
    return {(fault.rule.value, fault.option, fault.field) for fault in check(game, episodes)}


def rises(change: Change) -> bool:
    return int(change.after["tgt_pot_count"]) > int(change.before["tgt_pot_count"])


def lies(change: Change) -> bool:
    return change.before["tgt_item"] == "none" and change.after["tgt_item"] != "none"


@pytest.mark.parametrize(("option", "effect"), [("place_in_pot", rises), ("drop_held", lies)])
def test_a_shared_effect_that_no_partner_happens_to_cause(option: str, effect: Callable[[Change], bool]) -> None:
    """In a divided kitchen or in a few episodes nobody acts on the same target in the same step."""
    assert named(under(load("cramped_room"), option, effect=effect)) == {("shared_effect", option, "effect")}


def nearest(layout: Layout, option: str, most: int) -> Instances:
    """The free counters that are nearest as the crow flies."""

    def instances(world, agent: int) -> Sequence[Instance]:
        x, y = layout.cells[world.poses[agent] >> 2]
        spots = {i: layout.by_text[i.target] for i in world.free(agent)}
        return sorted(spots, key=lambda i: abs(spots[i].x - x) + abs(spots[i].y - y))[:most]

    return instances


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_nearest_few_of_many_targets(most: int) -> None:
    layout = load("cramped_room")
    found = named(under(layout, "drop_held", instances=nearest(layout, "drop_held", most)))
    assert found == {("nearest_target", "drop_held", "instances")}


def first(layout: Layout, option: str, kind: str) -> Instances:
    only = (Instance(option, layout.of_kind(kind)[0].text),)
    return lambda world, agent: only


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [("cramped_room", "pick_onion", ONIONS), ("asymmetric_advantages", "place_in_pot", POT)],
)
def test_only_the_first_target(name: str, option: str, kind: str) -> None:
    layout = load(name)
    found = named(under(layout, option, instances=first(layout, option, kind)))
    assert found == {("left_out", option, "instances")}


def test_only_the_first_of_targets_that_come_and_go() -> None:
    game = under(load("cramped_room"), "drop_held", instances=lambda world, agent: world.free(agent)[:1])
    assert ("left_out", "drop_held", "instances") in named(game)


@pytest.mark.parametrize("name", ["cramped_room", "forced_coordination"])
def test_instances_that_a_partners_hand_decides(name: str) -> None:
    layout = load(name)
    pots = tuple(Instance("plate_soup", target.text) for target in layout.of_kind(POT))
    gated = under(layout, "plate_soup", instances=lambda world, agent: () if world.held[1 - agent] != "none" else pots)
    assert ("gated", "plate_soup", "instances") in named(gated)


def test_an_effect_that_raises_is_that_options_fault() -> None:
    def broken(change: Change) -> bool:
        return change.after["tgt_pot_count"] == "1"

    game = under(load("cramped_room"), "pick_dish", effect=broken)
    faults = [fault for fault in check(game, 2) if fault.rule.value == "raises"]
    assert [(fault.option, fault.field) for fault in faults] == [("pick_dish", "executor")]
    assert "raised KeyError" in faults[0].seen


@pytest.mark.parametrize("layout", ["centre_pots", "m_shaped_s", "simple_tomato", "tutorial_0", "large_room"])
def test_the_shipped_contracts_raise_no_alarm(layout: str) -> None:
    assert check(make(layout), 2) == ()
