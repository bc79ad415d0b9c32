"""Static facts of every layout against facts read off the engine elsewhere."""

import json
from pathlib import Path

import pytest

from potluck_envs.overcooked import provider
from potluck_envs.overcooked.layout import DISHES, ONIONS, POT, TOMATOES, WINDOW, load
from potluck_optionlib.planners import FAR

FACTS = json.loads((Path(__file__).parent / "data" / "layout_facts_derived.json").read_text())
NAMES = [name.removeprefix("overcooked/") for name in provider.names()]
NOT_IN_1_1_0 = {"random0", "random3"}


def test_all_two_player_layouts_are_offered() -> None:
    two_player = {name for name, facts in FACTS.items() if facts["players"] == 2}
    assert set(NAMES) == two_player - NOT_IN_1_1_0


@pytest.mark.parametrize("name", NAMES)
def test_static_facts(name: str) -> None:
    layout, facts = load(name), FACTS[name]
    assert [layout.width, layout.height] == facts["shape"]
    assert [list(start) for start in layout.starts] == facts["start"]
    counts = {"pots": POT, "onion": ONIONS, "tomato": TOMATOES, "dish": DISHES, "serve": WINDOW}
    assert {key: len(layout.of_kind(kind)) for key, kind in counts.items()} == {key: facts[key] for key in counts}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("overcooked/cramped_rom", "did you mean overcooked/cramped_room, .*`potluck-envs list` names all 43"),
        ("overcooked/zzz", "'overcooked/zzz'; `potluck-envs list` names all 43"),
    ],
)
def test_unknown_names_are_told_the_near_ones_and_where_all_are(name: str, said: str) -> None:
    with pytest.raises(KeyError, match=said) as error:
        provider.make(name)
    assert str(error.value).count("overcooked/") <= 4


def test_the_joint_table_never_promises_less_than_walking_alone() -> None:
    layout = load("coordination_ring")
    for target in layout.targets:
        solo, joint = layout.solo(target.index), layout.joint(target.index)
        for pose, row in enumerate(joint):
            for cell, steps in enumerate(row):
                assert steps >= solo[pose] if cell != pose >> 2 else steps == FAR


def test_seats_of_divided_kitchens_reach_their_own_side_only() -> None:
    layout = load("forced_coordination")
    reach = [{t.kind for t in layout.targets if layout.reaches(seat, t)} for seat in (0, 1)]
    assert reach == [{"X", "P", "S"}, {"X", "O", "D"}]
    assert [t.text for t in layout.of_kind("X") if layout.shared(t)] == ["(2,1)", "(2,2)", "(2,3)"]
    assert not layout.same_room
