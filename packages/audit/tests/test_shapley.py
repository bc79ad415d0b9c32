"""Shapley values of games with published values, and what credit owes to them."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.credit import credit, is_complete
from potluck_audit.errors import Diverged
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.cooperation import cooperation
from potluck_audit.shapley import coalitions, shapley_of_masks, shapley_values

GAMES = json.loads((Path(__file__).parent / "data" / "known_games.json").read_text())


def characteristic(game: dict) -> np.ndarray:
    """The values of all coalitions by bit mask."""
    n = game["n"]
    masks = np.arange(1 << n)
    if "characteristic" in game:
        table = {
            sum(1 << int(p) for p in key.split(",") if p): float(value) for key, value in game["characteristic"].items()
        }
        return np.array([table[mask] for mask in masks])
    members = (masks[:, None] >> np.arange(n)) & 1
    if "quota" in game:
        return (members @ np.array(game["weights"]) >= game["quota"]).astype(float)
    return (members * np.array(game["costs"], float)).max(axis=1)


@pytest.mark.parametrize("name", GAMES)
def test_published_values(name):
    expected = [float(Fraction(v)) for v in GAMES[name]["published"]]
    rounded_to = 1e-11 if name == "airport20" else 1e-12  # published with twelve digits
    assert shapley_of_masks(characteristic(GAMES[name])) == pytest.approx(expected, abs=rounded_to)


def test_the_published_values_tell_a_wrong_weight():
    """Equal weights for all sizes give the Banzhaf index, which is another one."""
    value = characteristic(GAMES["glove"])
    banzhaf = [np.mean([value[m | 1 << p] - value[m] for m in range(8) if not m >> p & 1]) for p in range(3)]
    assert banzhaf != pytest.approx([float(Fraction(v)) for v in GAMES["glove"]["published"]], abs=1e-3)


def test_players_by_name():
    found = shapley_values("ab", {frozenset(): 0.0, frozenset("a"): 1.0, frozenset("b"): 2.0, frozenset("ab"): 6.0})
    assert found == {"a": 2.5, "b": 3.5}


def test_a_missing_coalition_is_an_error():
    with pytest.raises(KeyError):
        shapley_values([0, 1], {frozenset(): 0.0, frozenset([0]): 1.0, frozenset([0, 1]): 2.0})


def test_coalitions_begin_with_nobody_and_end_with_everyone():
    found = list(coalitions(["a", "b"]))
    assert found == [frozenset(), frozenset("a"), frozenset("b"), frozenset("ab")]


def two_agents(**changes):
    returns = {
        frozenset(): (0.0, 1.0),
        frozenset({"a"}): (2.0, 3.0),
        frozenset({"b"}): (0.0, 0.0),
        frozenset({"a", "b"}): (6.0, 8.0),
    }
    return CoalitionValues(("a", "b"), "noop", (1, 2), returns | changes)


def test_credit_is_conserved_and_the_empty_coalition_reported():
    found = credit(two_agents(), "eval/trained", "soups", Intervals(resamples=200))
    phi = {m.agent: m.estimate.value for m in found.credits}
    # seed 1: a = ½(2 + 6) = 4, b = ½(0 + 4) = 2; seed 2: a = ½(2 + 8) = 5, b = ½(-1 + 5) = 2
    assert phi == {"a": 4.5, "b": 2.0}
    assert (found.empty_value, found.team_value) == (0.5, 7.0)
    assert sum(phi.values()) == pytest.approx(found.team_value - found.empty_value, abs=1e-9)


def test_negative_credit_is_shown():
    values = two_agents(**{})
    values.returns[frozenset({"a", "b"})] = (1.0, 1.0)
    phi = {m.agent: m.estimate.value for m in credit(values, "s", "soups", Intervals(resamples=200)).credits}
    assert phi["b"] < 0


def test_credit_that_is_not_conserved_is_refused(monkeypatch):
    monkeypatch.setattr("potluck_audit.credit.shapley_values", lambda players, value: dict.fromkeys(players, 1.0))
    with pytest.raises(Diverged):
        credit(two_agents(), "s", "soups", Intervals(resamples=200))


def test_synergy_and_necessity():
    metrics = cooperation(two_agents(), "eval/trained", "soups", Intervals(resamples=200))
    found = {(m.name, m.agent): m.estimate.value for m in metrics if m.name != "coalition"}
    assert found == {
        ("solo", "a"): 2.5, ("solo", "b"): 0.0, ("synergy", ""): 4.5, ("necessity", "a"): 7.0, ("necessity", "b"): 4.5,
    }  # fmt: skip


def test_what_was_not_played_is_left_out():
    values = two_agents()
    del values.returns[frozenset({"b"})]
    names = {(m.name, m.agent) for m in cooperation(values, "s", "soups", Intervals(resamples=200))}
    assert ("synergy", "") not in names
    assert ("necessity", "a") not in names
    assert not is_complete(values)
