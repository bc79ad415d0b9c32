from fractions import Fraction
from itertools import product

import pytest
from scipy import stats

from potluck_audit.errors import InvalidRequest
from potluck_audit.foreign.baselines import baselines, constant, hindsight, uniform
from potluck_audit.foreign.log import FailureLog, Message
from potluck_audit.foreign.predictions import Prediction, prediction, whole_number
from potluck_audit.foreign.score import guesser, proportion, score


def log(name="1.json", agent="A", step=1, speakers="ABABABABABAB"):
    return FailureLog(name, "", "q", "", tuple(Message(s, "…") for s in speakers), agent, step)


def one(agent, step, gold=1):
    return score("m", [log(step=gold)], {"1.json": prediction(agent, step)})


def test_ten_is_not_one():
    row = one("A", "10")
    assert (row.agent.value, row.step.value) == (1.0, 0.0)
    assert [row.within[k].value for k in (1, 2, 3, 4, 5)] == [0.0] * 5
    assert row.unparsable_steps == 0
    assert one("A", "1").step.value == 1.0  # the same scorer says so where it is right


def test_agents_match_whole_and_without_regard_to_case():
    assert one(" a ", 1).agent.value == 1.0
    assert one("AB", 1).agent.value == 0.0
    assert one("", 1).agent.value == 0.0


@pytest.mark.parametrize("raw", ["1.0", 1.0, "step 1", "1 or 2", "", None, True, [1], "\u0661"])
def test_what_is_no_whole_number_is_wrong_and_counted(raw):
    row = one("A", raw)
    assert (row.step.value, row.within[5].value, row.unparsable_steps) == (0.0, 0.0, 1)
    assert whole_number(raw) is None


def test_tolerance_counts_steps():
    row = one("A", 4, gold=1)
    assert [row.within[k].value for k in (1, 2, 3, 4, 5)] == [0.0, 0.0, 1.0, 1.0, 1.0]


def test_a_log_without_answer_is_wrong_and_counted_and_an_unknown_log_is_refused():
    row = score("m", [log(), log("2.json")], {"1.json": Prediction("A", 1)})
    assert (row.step.value, row.unparsable_agents, row.unparsable_steps) == (0.5, 1, 1)
    with pytest.raises(InvalidRequest, match=r"no log '3\.json'"):
        score("m", [log()], {"3.json": Prediction("A", 1)})


def test_intervals_are_clopper_and_pearsons():
    estimate = proportion(2, 10, 0.95)
    assert estimate.low == pytest.approx(stats.beta.ppf(0.025, 2, 9), abs=1e-9)
    assert estimate.high == pytest.approx(stats.beta.ppf(0.975, 3, 8), abs=1e-9)
    assert proportion(0, 10, 0.95)[:2] == (0.0, 0.0)
    assert proportion(0, 10, 0.95).high == pytest.approx(1 - 0.025 ** (1 / 10))
    assert proportion(0, 0, 0.95).value is None


def test_the_range_of_guessers_holds_what_it_says():
    chances = [Fraction(1, 3), Fraction(1, 2), Fraction(1, 5), Fraction(0), Fraction(1)]
    found = guesser(chances, 0.8)
    assert found.value == pytest.approx(float(sum(chances) / 5))
    mass = {}
    for hits in product((0, 1), repeat=5):
        chance = Fraction(1)
        for hit, p in zip(hits, chances, strict=True):
            chance *= p if hit else 1 - p
        mass[sum(hits)] = mass.get(sum(hits), 0) + chance
    below = sum(p for hits, p in mass.items() if hits < found.low * 5)
    above = sum(p for hits, p in mass.items() if hits > found.high * 5)
    assert below <= Fraction(1, 10)
    assert above <= Fraction(1, 10)
    assert below + mass[round(found.low * 5)] > Fraction(1, 10)
    assert above + mass[round(found.high * 5)] > Fraction(1, 10)


def test_the_constant_answer_never_sees_the_log_it_answers():
    logs = [log("1.json", "A", 1), log("2.json", "A", 1), log("3.json", "B", 2)]
    assert constant(logs) == {
        "1.json": Prediction("a", 1), "2.json": Prediction("a", 1), "3.json": Prediction("a", 1)
    }  # fmt: skip
    # Were its own label counted, the odd one out of two would be answered with itself.
    pair = [log("1.json", "A", 1), log("2.json", "B", 2)]
    assert constant(pair) == {"1.json": Prediction("b", 2), "2.json": Prediction("a", 1)}
    assert constant([log()]) == {"1.json": Prediction(None, None)}
    # In hindsight it would be right on one of them: a floor, shown as what it is.
    assert hindsight(pair) == {"1.json": Prediction("a", 1), "2.json": Prediction("a", 1)}


def test_uniform_guesses_are_expected_values():
    logs = [log("1.json", "A", 0, "ABC"), log("2.json", "B", 2, "ABABA"), log("3.json", "Z", 1, "AB")]
    row = uniform(logs, (1, 2), 0.95)
    assert row.expected
    assert row.agent.value == pytest.approx((1 / 3 + 1 / 2 + 0) / 3)
    assert row.step.value == pytest.approx((1 / 3 + 1 / 5 + 1 / 2) / 3)
    assert row.within[1].value == pytest.approx((2 / 3 + 3 / 5 + 1) / 3)
    assert row.within[2].value == pytest.approx(1.0)


def test_positions_are_those_of_agents():
    [first, middle, last] = [
        row for row in baselines([log("1.json", "B", 2, ("human", "A", "B", "C"))]) if row.method.endswith(" step")
    ]
    assert (first.step.value, middle.step.value, last.step.value) == (0.0, 1.0, 0.0)
    assert (first.agent.value, middle.agent.value, last.agent.value) == (0.0, 1.0, 0.0)
    assert first.within[1].value == 1.0
