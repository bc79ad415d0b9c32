"""The pair interaction index against hand values and against the library shapiq."""

import json
from pathlib import Path

import numpy as np
import pytest

from potluck_audit.interactions import interactions_of_masks, pair_interactions

DATA = Path(__file__).parent / "data"
GAMES = json.loads((DATA / "known_games.json").read_text())


def masks(game):
    table = {sum(1 << int(p) for p in k.split(",") if p): float(v) for k, v in game["characteristic"].items()}
    return np.array([table[mask] for mask in range(1 << game["n"])])


def test_two_players():
    value = {frozenset(): 1.0, frozenset("a"): 3.0, frozenset("b"): 2.0, frozenset("ab"): 10.0}
    assert pair_interactions("ab", value) == {("a", "b"): 10.0 - 3.0 - 2.0 + 1.0}


def test_gloves():
    """Of one right and two left gloves: a left and the right need each other, the left ones replace each other.

    I(0, 2): weights 1/2 each over S = {} and {1}: ½·1 + ½·0; I(0, 1): ½·0 + ½·(1 - 1 - 1 + 0).
    """
    assert interactions_of_masks(masks(GAMES["glove"])) == {(0, 1): -0.5, (0, 2): 0.5, (1, 2): 0.5}


def test_an_additive_game_has_none():
    worth = np.array([sum(w for bit, w in enumerate((1.0, 5.0, -2.0)) if m >> bit & 1) for m in range(8)])
    assert interactions_of_masks(worth) == pytest.approx({(0, 1): 0.0, (0, 2): 0.0, (1, 2): 0.0})


def test_one_player_has_no_pair():
    assert interactions_of_masks(np.array([0.0, 3.0])) == {}


def test_a_number_of_values_that_is_no_power_of_two():
    with pytest.raises(ValueError, match="not those of all coalitions"):
        interactions_of_masks(np.zeros(6))


SHAPIQ = json.loads((DATA / "shapiq_interactions.json").read_text())


@pytest.mark.parametrize("game", SHAPIQ["games"], ids=[g["name"] for g in SHAPIQ["games"]])
def test_as_the_library_shapiq_has_it(game):
    found = interactions_of_masks(np.array(game["values"]))
    assert found == pytest.approx({(i, j): value for i, j, value in game["pairs"]}, abs=1e-12)
    banzhaf = [
        np.mean([game["values"][m | 1 << i | 1 << j] - game["values"][m | 1 << i] - game["values"][m | 1 << j]
                 + game["values"][m] for m in range(1 << game["n"]) if not m & (1 << i | 1 << j)])
        for i, j, _ in game["pairs"]
    ]  # fmt: skip
    if game["n"] > 3:
        assert list(found.values()) != pytest.approx(banzhaf, abs=1e-3), "equal weights are another index"
