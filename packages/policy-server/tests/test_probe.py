"""The probe: what it says of a backbone that binds labels, of one that does not, and of one that likes a place."""

import json

import numpy as np
import pytest

from potluck_policy_server.backbones.base import LETTERS, WORDS, Scores
from potluck_policy_server.probe import report
from potluck_policy_server.probe.measure import Measured, measure, recommend
from potluck_policy_server.probe.questions import SIZES, fit_batch, held_out


class Answers:
    """A backbone of one line: a function from a prompt to probabilities."""

    def __init__(self, rule):
        self._rule = rule

    def prepare(self, query):
        return query

    def score(self, prepared):
        return [Scores(np.log(self._rule(query.prompt) + 1e-9), 0.5) for query in prepared]


def knows(prompt):
    wanted = prompt.observation.split()[-1]
    p = np.array([float(item.word == wanted) for item in prompt.items])
    return (p + 0.01) / (p + 0.01).sum()


def likes_the_first(prompt):
    p = np.full(len(prompt.items), 0.1)
    p[0] = 5.0
    return p / p.sum()


@pytest.fixture(scope="module")
def tests():
    return held_out(0, 26, SIZES)


def test_one_that_reads_scores_one_and_has_no_favourite_place(tests):
    found = measure(Answers(knows), WORDS, None, tests)
    assert (found.skill, set(found.right.values())) == (1.0, {1.0})
    assert found.prior < 0.15
    assert found.mass == 0.5


def test_one_that_likes_a_place_is_at_chance_and_is_named(tests):
    found = measure(Answers(likes_the_first), LETTERS, None, tests)
    assert abs(found.skill) < 0.1
    assert found.prior > 0.4
    assert found.favourite.startswith("A (0.8")
    assert found.right[26] == pytest.approx(1 / 26, abs=0.04)


def test_places_go_round_and_the_fit_never_names_what_is_tested(tests):
    for n, questions in tests.items():
        places = np.bincount([q.right for q in questions], minlength=n)
        assert places.max() - places.min() <= 1 + 26 // n
        for question in questions:
            names = [item.word for item in question.prompt.items]
            assert question.prompt.observation.split()[-1] == names[question.right]
    tested = {item.word for questions in tests.values() for q in questions for item in q.prompt.items}
    fitted = {item.word for step in range(20) for q in fit_batch(0, step, 8) for item in q.prompt.items}
    assert not tested & fitted


@pytest.mark.parametrize(
    ("letters", "words", "scheme", "because"),
    [
        (0.9, 0.92, "letters", "finds the right letter"),
        (0.1, 0.9, "words", "finds the right word"),
        (0.0, 0.1, "words", "binds neither"),
        (None, 0.1, "words", "only scheme"),
        (0.0, None, "letters", "only scheme"),
    ],
)
def test_the_recommendation_follows_the_measurements(letters, words, scheme, because):
    def found(kind, skill):
        return [] if skill is None else [Measured(kind, False, {2: 0.5}, skill, 0.0, "A", 0.5, 1.0)]

    name, why = recommend(found(LETTERS, letters) + found(WORDS, words))
    assert (name, because in why) == (scheme, True), why


def test_a_random_base_frozen_and_fitted(kit, folder):
    """Through the served engine: a fit of a few steps moves the labels' share of the vocabulary."""
    from potluck_policy_server.backbones.base import BackboneOptions

    result = report.probe(BackboneOptions(str(folder)), per_size=3, steps=6, rate=5e-3, seed=0, most=4)
    assert [(one["scheme"], one["fitted"]) for one in result["found"]] == [
        ("letters", False), ("letters", True), ("words", False), ("words", True),
    ]  # fmt: skip
    assert result["found"][1]["mass"] > result["found"][0]["mass"]
    json.dumps(result)
    text = report.table(result)
    assert "after 6 steps" in text
    assert text.splitlines()[-1].startswith("recommended labels: ")
