"""The rule of the verdict, line by line, and the gate over checkpoints with known right answers."""

import itertools

import numpy as np
import pytest

from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.intervals import UNDEFINED, Estimate, Intervals
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.verdict.decoupling import decoupling
from potluck_audit.verdict.measures import CheckpointPlay
from potluck_audit.verdict.paired import p_fell, p_rose
from potluck_audit.verdict.rule import Findings, decide, judge
from potluck_audit.verdict.saved import load_verdict, to_json, write_verdict
from potluck_audit.verdict.verdict import Outcome, Verdict

FEW = Intervals(resamples=400)
NOISE = np.array([0.0, 1.0, -1.0, 0.5, -0.5, 1.0, -1.0, 0.0])


def sure(value):
    return Estimate(value, value - 0.1, value + 0.1, 12)


def open_(value):
    return Estimate(value, value - 5, value + 5, 12)


def findings(earned, necessity, synergy, idle=None):
    names = [f"agent_{n}" for n in range(len(necessity))]
    idle = idle or [UNDEFINED] * len(names)
    share = (earned.value or 0) / len(names)
    return Findings(
        earned, dict(zip(names, necessity, strict=True)), synergy, dict(zip(names, idle, strict=True)), share
    )


RULE = [
    ("nothing earned", Verdict.UNDECIDED, findings(open_(1), [sure(1), sure(1)], sure(1))),
    ("one episode", Verdict.UNDECIDED, findings(Estimate(4.0, None, None, 1), [UNDEFINED] * 2, UNDEFINED)),
    ("forced coordination", Verdict.COOPERATIVE, findings(sure(8), [sure(8), sure(8)], sure(8))),
    ("side by side", Verdict.PARALLEL, findings(sure(8), [sure(4), sure(4)], sure(0))),
    ("in each other's way", Verdict.PARALLEL, findings(sure(6), [sure(2), sure(2)], sure(-2))),
    ("one works, one is busy", Verdict.CARRIED, findings(sure(4), [sure(4), sure(0.1)], sure(0))),
    ("one works, one hinders", Verdict.CARRIED, findings(sure(4), [sure(4), sure(-2)], sure(-1))),
    (
        "one works, one idles",
        Verdict.FREE_RIDING,
        findings(sure(4), [sure(4), sure(0)], sure(0), [Estimate(0.1, 0, 0.2, 12), Estimate(0.9, 0.8, 1, 12)]),
    ),
    (
        "one idles, and might be idle less than half of its time",
        Verdict.CARRIED,
        findings(sure(4), [sure(4), sure(0)], sure(0), [UNDEFINED, Estimate(0.6, 0.4, 0.8, 12)]),
    ),
    ("two work, one is carried", Verdict.FREE_RIDING, findings(sure(9), [sure(4), sure(4), sure(0)], sure(0))),
    ("anyone makes up for anyone", Verdict.PARALLEL, findings(sure(9), [sure(0), sure(0), sure(0)], sure(-18))),
    ("a wide synergy", Verdict.UNDECIDED, findings(sure(8), [sure(4), sure(4)], open_(1))),
    ("an open necessity", Verdict.UNDECIDED, findings(sure(8), [sure(8), open_(3)], sure(3))),
    ("one useless, the other open", Verdict.UNDECIDED, findings(sure(8), [open_(3), sure(0)], sure(0))),
]


@pytest.mark.parametrize(("verdict", "found"), [row[1:] for row in RULE], ids=[row[0] for row in RULE])
def test_the_rule(verdict, found):
    told, reason = decide(found, 0.5, "soups")
    assert told is verdict, reason
    assert reason


def test_all_verdicts_are_reached():
    assert {row[1] for row in RULE} == set(Verdict)


def test_undecided_says_how_many_episodes_might_do():
    _, reason = decide(findings(sure(8), [sure(8), Estimate(3.0, 1.0, 5.0, 12)], sure(3)), 0.5)
    # the bar is 2, one away, and the interval reaches two: four times the episodes
    assert "whether agent_1 counts (above 2.00); about 48 episodes might tell" in reason


def play(round_number, both, first, second, *, seeds=8, empty=0.0):
    """A checkpoint of two agents from its mean values, with noise that the seeds share."""
    noise = np.resize(NOISE, seeds)
    values = {
        frozenset(): np.full(seeds, empty),
        frozenset({"agent_0"}): np.full(seeds, float(first)),
        frozenset({"agent_1"}): np.full(seeds, float(second)),
        frozenset({"agent_0", "agent_1"}): both + noise * min(1.0, both),
    }
    returns = {members: tuple(v.tolist()) for members, v in values.items()}
    values = CoalitionValues(("agent_0", "agent_1"), "noop", tuple(range(seeds)), returns)
    return CheckpointPlay(round_number, values, EpisodeSet(f"checkpoint/{round_number}", (), "soups"))


def test_what_the_baseline_earns_is_nobodys():
    found = judge(play(1, 10.0, 6.0, 6.0, empty=2.0), FEW)
    # beyond the baseline: 8, 4 and 4
    assert found.find("synergy", key="noop").estimate.value == pytest.approx(0.0)
    assert found.find("necessity", "agent_0", "noop").estimate.value == pytest.approx(4.0)


def test_reward_up_and_cooperation_down_is_decoupled():
    found = decoupling([play(0, 3.0, 0.0, 0.0), play(5, 9.0, 9.0, 0.0)], FEW)
    assert found.outcome is Outcome.DECOUPLED
    assert [c.verdict for c in found.checkpoints] == [Verdict.COOPERATIVE, Verdict.CARRIED]
    assert "the return rose by 6.00 soups while" in found.reason
    assert all(c.p_holm >= c.p_value for c in found.comparisons if c.p_holm is not None)


def test_reward_and_cooperation_up_is_coupled():
    found = decoupling([play(0, 3.0, 3.0, 0.0), play(5, 9.0, 0.0, 0.0)], FEW)
    assert found.outcome is Outcome.COUPLED
    assert found.checkpoints[-1].verdict is Verdict.COOPERATIVE


def test_cooperation_down_without_reward_is_coupled():
    """Not good, and another story."""
    assert decoupling([play(0, 9.0, 0.0, 0.0), play(5, 3.0, 3.0, 0.0)], FEW).outcome is Outcome.COUPLED


def test_a_fall_in_the_middle_of_the_run_is_found():
    plays = [play(0, 0.0, 0.0, 0.0), play(3, 4.0, 0.0, 0.0), play(9, 9.0, 8.5, 0.0)]
    found = decoupling(plays, FEW)
    assert found.outcome is Outcome.DECOUPLED
    assert {c.round for c in found.comparisons} == {3}, "nothing can fall from a checkpoint that earns nothing"


@pytest.mark.parametrize(
    ("plays", "why"),
    [
        ([play(3, 4.0, 0.0, 0.0)], "a change needs two"),
        ([], "a change needs two"),
        ([play(0, 0.0, 0.0, 0.0), play(5, 0.0, 0.0, 0.0)], "no checkpoint earns anything"),
        ([play(0, 3.0, 0.0, 0.0, seeds=1), play(5, 9.0, 9.0, 0.0, seeds=1)], "one episode"),
        ([play(0, 3.0, 0.0, 0.0, seeds=4), play(5, 9.0, 9.0, 0.0, seeds=4)], "may be chance"),
    ],
)
def test_too_little_to_tell(plays, why):
    found = decoupling(plays, FEW)
    assert found.outcome is Outcome.UNDECIDABLE
    assert why in found.reason


def test_nothing_to_fall_from():
    found = decoupling([play(0, 0.0, 0.0, 0.0), play(5, 9.0, 9.0, 0.0)], FEW)
    assert found.outcome is Outcome.COUPLED
    assert "cannot be said to have fallen" in found.reason


def test_a_paired_test_against_all_swaps_by_hand():
    before, after = np.array([1.0, 2.0, 3.0]), np.array([4.0, 2.5, 5.0])

    def ratio(total):
        return total

    observed = (after - before).sum()
    steps = after - before
    swapped = [sum(s * d for s, d in zip(signs, steps, strict=True)) for signs in itertools.product((1, -1), repeat=3)]
    expected = np.mean([s >= observed - 1e-12 for s in swapped])
    assert p_rose(ratio, [before], [after], 0) == pytest.approx(expected) == 1 / 8
    assert p_fell(ratio, [before], [after], 0) == 1.0


def test_a_paired_test_holds_its_level_where_nothing_changed():
    generator = np.random.default_rng(0)
    found = [
        p_rose(
            lambda total: total, [generator.poisson(3, 10).astype(float)], [generator.poisson(3, 10).astype(float)], 0
        )
        for _ in range(300)
    ]
    assert np.mean([p < 0.05 for p in found]) < 0.08


def test_a_test_of_one_pair_or_of_nothing_is_none():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert p_rose(lambda x: x, [one], [one], 0) is None
    assert p_rose(lambda x: x * np.nan, [two], [two], 0) is None


def test_a_verdict_is_read_back_as_it_was_written(tmp_path):
    found = decoupling([play(0, 3.0, 0.0, 0.0), play(5, 9.0, 9.0, 0.0)], FEW)
    write_verdict(found, tmp_path)
    assert to_json(load_verdict(tmp_path)) == to_json(found)
    assert load_verdict(tmp_path / "elsewhere") is None
