"""The three classic contract defects on the real engine: each shows its symptom, is named, and goes with its cure.

Absolute effect: holding an onion counts as having picked one. Shared-state attribution: a pot that fills or starts
cooking counts whoever did it. Nearest-target instantiation: only the pot nearest as the crow flies is ever offered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from potluck_envs.overcooked.game import OvercookedGame, make
from potluck_envs.overcooked.layout import POT, Layout, load
from potluck_envs.overcooked.options import StartCookingEffect, library
from potluck_envs.overcooked.shim import OvercookedGridworld, read_layout_dict
from potluck_optionlib.burnin import Burnin, BurninPlan, run
from potluck_optionlib.contracts import Change
from potluck_optionlib.game import Instance
from potluck_optionlib.mining import mine
from potluck_optionlib.suspicion import examine
from potluck_optionlib.validation import check

SIDE_BY_SIDE = ("XXXSX", "O1P2D", "XXXXX")
"""Two chefs, one step from everything and from the same pot, so that they often act in the same step."""
BEHIND_THE_WALL = ("XXXXXXPX", "XXXXXXXX", "XXO    X", "PXX 12 P", "XXD    X", "XXXSXXXX", "XXXXXXPX")
"""One pot in the room and three behind its walls, which are nearer from wherever a chef ends an option."""


def kitchen(name: str, grid: Sequence[str]) -> Layout:
    """A kitchen of our own under the cramped room's recipes."""
    params = read_layout_dict("cramped_room")
    for key in ("grid", "start_state", "rew_shaping_params"):
        params.pop(key, None)
    return Layout(
        name, OvercookedGridworld.from_grid(grid, {**params, "layout_name": name, "rew_shaping_params": None})
    )


def under(layout: Layout, effect: StartCookingEffect = "ordered", **changes: dict[str, object]) -> OvercookedGame:
    """A game whose named contracts have other fields."""
    contracts = library(layout, effect)
    return OvercookedGame(
        layout, effect, tuple(replace(kept, **changes.get(name, {})) for name, kept in contracts.items())
    )


@dataclass
class Outcome:
    """What one set of contracts leads to."""

    burnin: Burnin
    guards: dict[str, int]
    suspicions: set[tuple[str, str]]
    faults: set[tuple[str, str, str]]


def outcome(game: OvercookedGame, plan: BurninPlan, episodes: int = 2) -> Outcome:
    burnin = run(game, plan)
    mined = mine([burnin])
    suspicions = {(s.kind.value, s.option) for s in examine(burnin, mined, game.contracts.values())}
    faults = {(f.rule.value, f.option, f.field) for f in check(game, episodes)}
    return Outcome(burnin, {g.text: g.support for g in mined.guards}, suspicions, faults)


def succeeded(burnin: Burnin, option: str) -> int:
    return sum(tally.count for tally in burnin.tallies() if (tally.option, tally.outcome) == (option, "success"))


def test_absolute_effect() -> None:
    layout, plan = load("cramped_room"), BurninPlan(6, 6, seed=0)
    bad = outcome(under(layout, "plain", pick_onion={"effect": lambda change: change.after["held"] == "onion"}), plan)
    good = outcome(under(layout, "plain"), plan)
    assert "pick_onion when held = onion" not in bad.guards
    assert good.guards["pick_onion when held = onion"] >= 5
    assert ("effect_without_change", "pick_onion") in bad.suspicions
    assert ("absolute_effect", "pick_onion", "effect") in bad.faults
    assert good.suspicions == good.faults == set()
    assert set(good.guards) - set(bad.guards) == {"pick_onion when held = onion"}


def rises(change: Change) -> bool:
    return int(change.after["tgt_pot_count"]) > int(change.before["tgt_pot_count"])


def test_a_pot_that_a_partner_filled() -> None:
    layout, plan = kitchen("side_by_side", SIDE_BY_SIDE), BurninPlan(6, 20, seed=0)
    bad = outcome(under(layout, "plain", place_in_pot={"effect": rises}), plan, episodes=8)
    good = outcome(under(layout, "plain"), plan)
    right = {f"place_in_pot when held = {item}" for item in ("dish", "soup")}
    assert right <= set(good.guards)
    assert not right & set(bad.guards)
    assert ("unattributed_success", "place_in_pot") in bad.suspicions
    assert ("shared_effect", "place_in_pot", "effect") in bad.faults
    assert good.suspicions == good.faults == set()


def test_a_pot_that_a_partner_started() -> None:
    layout, plan = kitchen("side_by_side", SIDE_BY_SIDE), BurninPlan(6, 20, seed=0)
    bad = outcome(under(layout, "plain", start_cooking={"solo_only": False}), plan)
    good = outcome(under(layout, "plain"), plan)
    right = "start_cooking when held = dish"
    assert good.guards[right] >= 5
    assert right not in bad.guards
    assert ("unattributed_success", "start_cooking") in bad.suspicions
    assert ("shared_effect", "start_cooking", "effect") in bad.faults
    assert good.suspicions == good.faults == set()


def nearest(layout: Layout, option: str) -> Callable[[OvercookedGame, int], Sequence[Instance]]:
    """Only the pot that is nearest as the crow flies, straight ahead rather than aside."""

    def instances(world, agent: int) -> Sequence[Instance]:
        x, y = layout.cells[world.poses[agent] >> 2]
        pot = min(layout.of_kind(POT), key=lambda t: (abs(t.x - x) + abs(t.y - y), abs(t.x - x)))
        return (Instance(option, pot.text),)

    return instances


def test_nearest_target_instantiation() -> None:
    layout, plan = kitchen("behind_the_wall", BEHIND_THE_WALL), BurninPlan(24, 0, seed=0)
    options = ("place_in_pot", "start_cooking", "plate_soup")
    bad = outcome(under(layout, "plain", **{name: {"instances": nearest(layout, name)} for name in options}), plan)
    good = outcome(under(layout, "plain"), plan)
    assert {option: succeeded(bad.burnin, option) for option in options} == dict.fromkeys(options, 0)
    assert succeeded(good.burnin, "place_in_pot") >= 5
    assert ("always_explicit", "place_in_pot") in bad.suspicions
    assert {(rule, option) for rule, option, _ in bad.faults} >= {("nearest_target", name) for name in options}
    assert "always_explicit" not in {kind for kind, _ in good.suspicions}
    assert good.faults == set()
    right = "place_in_pot when held = dish"
    assert right in good.guards
    assert right not in bad.guards


@pytest.mark.parametrize("reads", [("held", "partner_near"), ("mate_holds",)])
def test_a_read_set_that_names_a_partners_feature(reads: tuple[str, ...]) -> None:
    game = under(load("cramped_room"), place_in_pot={"reads": reads})
    assert ("partner_feature", "place_in_pot", "reads") in {(f.rule.value, f.option, f.field) for f in check(game, 0)}


@pytest.mark.parametrize(
    "layout",
    ["asymmetric_advantages", "coordination_ring", "cramped_room_tomato", "forced_coordination", "counter_circuit"],
)
def test_the_shipped_contracts_are_clean(layout: str) -> None:
    assert check(make(layout), 2) == ()


def test_a_valid_but_useless_execution_is_never_hidden() -> None:
    """The known limit: one onion may be cooked under the plain effect, and counters may be filled without end."""
    layout, plan = load("cramped_room"), BurninPlan(6, 6, seed=0)
    plain = mine([run(under(layout, "plain"), plan)])
    ordered = mine([run(under(layout, "ordered"), plan)])
    one_onion = {"held": "none", "tgt_pot_state": "onion1"}
    assert not plain.forbids("start_cooking", one_onion)
    assert ordered.forbids("start_cooking", one_onion)
    for mined in (plain, ordered):
        assert not mined.forbids("drop_held", {"held": "onion", "tgt_item": "none"})
