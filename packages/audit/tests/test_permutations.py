"""Sampled Shapley values against games with published values, their errors, and the check along every order."""

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from potluck_audit import permutations
from potluck_audit.permutations import NotEfficient, orders, orders_within, prefixes, sampled_shapley

GAMES = json.loads((Path(__file__).parent / "data" / "known_games.json").read_text())


def worth(game):
    """The game as a function of a coalition of players 0 to n - 1."""
    if "characteristic" in game:
        table = {frozenset(int(p) for p in k.split(",") if p): float(v) for k, v in game["characteristic"].items()}
        return table.__getitem__
    if "quota" in game:
        return lambda members: float(sum(game["weights"][p] for p in members) >= game["quota"])
    return lambda members: float(max((game["costs"][p] for p in members), default=0))


def sample(game, pairs, seed):
    players = range(game["n"])
    drawn = list(itertools.islice(orders(players, seed), 2 * pairs))
    value = worth(game)
    return sampled_shapley(drawn, players, lambda members: np.array([value(members)]))


@pytest.mark.parametrize("name", GAMES)
def test_published_values_lie_within_the_stated_error(name):
    game = GAMES[name]
    found = sample(game, pairs=400, seed=1)
    for player, published in enumerate(game["published"]):
        exact, error = float(Fraction(published)), found.errors[player]
        assert abs(found.values[player] - exact) <= 4.5 * error + 1e-9, (name, player)
    assert sum(found.values.values()) == pytest.approx(worth(game)(frozenset(range(game["n"]))), abs=1e-9)


def test_an_interval_covers_the_exact_value_in_about_95_of_100_seeds():
    game = GAMES["sage_long"]
    exact = [float(Fraction(v)) for v in game["published"]]
    hits = np.zeros(4)
    for seed in range(200):
        found = sample(game, pairs=30, seed=seed)
        for player in range(4):
            low, high = found.interval(player, 0.95)
            hits[player] += low <= exact[player] <= high
    assert (hits / 200 > 0.91).all(), hits
    assert (hits / 200 < 0.985).all(), hits


def test_the_standard_error_is_that_of_a_mean_over_pairs():
    """shap#4767: the variance of a mean of N values is s²/N and not s²/√N."""
    by_pair = np.array([1.0, -1.0] * 50).reshape(100, 1, 1) * 2.0 * np.sqrt(99 / 100)  # sample variance 4
    found = permutations.Sampled(("a",), by_pair)
    assert found.errors["a"] ** 2 == pytest.approx(4 / 100)


def test_a_reversed_order_lowers_the_error():
    """Of an additive game with a bonus for the first and last, pairs cancel what single orders show."""
    game = GAMES["airport20"]
    antithetic = sample(game, pairs=300, seed=3).errors[19]
    generator, value = np.random.default_rng(3), worth(game)
    drawn = [tuple(generator.permutation(20).tolist()) for _ in range(600)]
    single = sampled_shapley(drawn, range(20), lambda members: np.array([value(members)])).errors[19]
    assert antithetic < single


def test_an_order_and_its_reverse():
    first, second, third, fourth = itertools.islice(orders("abcd", 7), 4)
    assert second == first[::-1]
    assert fourth == third[::-1]
    assert first != third
    assert next(orders("abcd", 7)) == first, "a seed draws the same orders"


def test_two_players_in_both_orders_are_exact():
    value = {frozenset(): 1.0, frozenset("a"): 3.0, frozenset("b"): 2.0, frozenset("ab"): 10.0}
    found = sampled_shapley([("a", "b"), ("b", "a")], "ab", lambda s: np.array([value[s]]))
    assert found.values == {"a": 5.0, "b": 4.0}
    assert found.errors == {"a": None, "b": None}, "one pair has no error"
    assert found.interval("a", 0.95) is None


def test_a_mix_up_of_player_and_place_is_found(monkeypatch):
    """The known bug: marginals booked by the place in the order. Booked twice to one seat they do not add up."""
    value = worth(GAMES["sage_long"])
    order = (2, 0, 3, 1)
    with pytest.raises(NotEfficient):
        permutations._marginals(order, {2: 0, 0: 1, 3: 2, 1: 2}, lambda s: np.array([value(s)]))
    permutations._marginals(order, {p: p for p in range(4)}, lambda s: np.array([value(s)]))


def test_values_that_are_no_numbers_are_not_efficient():
    with pytest.raises(NotEfficient):
        sampled_shapley([("a", "b"), ("b", "a")], "ab", lambda s: np.array([np.nan]))


def test_half_a_pair_is_refused():
    with pytest.raises(ValueError, match="no whole antithetic pairs"):
        sampled_shapley([("a", "b")], "ab", lambda s: np.array([0.0]))


@pytest.mark.parametrize("budget", [40, 128])
def test_a_budget_is_kept_and_used(budget):
    players = tuple(f"agent_{n}" for n in range(9))
    drawn = orders_within(players, budget, seed=0)
    needed = {members for order in drawn for members in prefixes(order)}
    assert len(drawn) % 2 == 0
    assert len(needed) <= budget < len(needed) + 2 * 8, "another pair would not have fitted"


def test_no_pair_fits_a_small_budget():
    assert orders_within(tuple("abcdefgh"), 10, seed=0) == []


def test_few_episodes_widen_an_interval():
    """Orders agree, episodes do not."""
    by_pair = np.broadcast_to(np.array([[[0.0, 4.0, 8.0]]]), (10, 1, 3))
    found = permutations.Sampled(("a",), by_pair)
    low, high = found.interval("a", 0.95)
    # over episodes s = 4 and the error 4/sqrt(3), t of 2 degrees = 4.303; orders add an error of 4/11
    assert (low, high) == pytest.approx((4 - 9.75, 4 + 9.75), abs=0.2)


def test_a_player_that_decides_rarely_is_not_stated_without_error():
    """No order of 20 shows what a small member of the UN council is worth, 4/2145."""
    found = sample(GAMES["un_security_council"], pairs=10, seed=0)
    silent = [p for p in range(5, 15) if found.values[p] == 0.0]
    assert silent
    assert all(found.errors[p] == pytest.approx(1 / 11, abs=0.05) for p in silent)
    low, high = found.interval(silent[0], 0.95)
    assert low < 4 / 2145 < high


def test_an_interval_covers_where_orders_and_episodes_are_both_samples():
    """Five players; what a pair adds differs by episode. The truth is the mean over all orders and endless episodes."""
    players, hits, runs = "abcde", 0, 200
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        luck, bond = generator.normal(0, 1, 10), generator.normal(3, 1, 10)

        def value(members, luck=luck, bond=bond):
            return len(members) + luck * ("a" in members) + bond * ({"a", "b"} <= members)

        drawn = list(itertools.islice(orders(players, seed), 12))
        low, high = sampled_shapley(drawn, players, value).interval("a", 0.95)
        hits += low <= 1 + 3 / 2 <= high
    assert hits / runs > 0.92, "not too narrow"
    assert hits / runs < 1.0, "and it can miss"
