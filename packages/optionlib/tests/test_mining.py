"""The synthesiser on records whose right guards are known, with controls that must not be mined."""

import dataclasses
import random

import pytest

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.burnin.errors import EmptyBurninError, SameEpisodesError, SupportError
from potluck_optionlib.errors import ContractMismatchError, RecordError
from potluck_optionlib.evidence import complete
from potluck_optionlib.mining import mine


def rows(option: str, count: int, outcome: str, solo: bool = True, **features: str) -> list[tuple]:
    return [(option, outcome, features, solo)] * count


@pytest.fixture
def mined(recorded):
    def run(*groups: list[tuple], **kwargs) -> dict[str, int]:
        guards = mine([recorded(*(row for group in groups for row in group), **kwargs)]).guards
        return {f"{g.option}: " + " & ".join(f"{k}={v}" for k, v in sorted(g.when.items())): g.support for g in guards}

    return run


def test_five_failures_and_no_success_make_a_guard(mined) -> None:
    held = rows("pick", 5, "effect_fail", held="onion")
    assert mined(held, rows("pick", 1, "success", held="none")) == {"pick: held=onion": 5}


def test_four_failures_do_not(mined) -> None:
    assert mined(rows("pick", 4, "effect_fail", held="onion"), rows("pick", 1, "success", held="none")) == {}


def test_one_success_vetoes_a_thousand_failures(mined) -> None:
    assert mined(rows("pick", 1000, "effect_fail", held="onion"), rows("pick", 1, "success", held="onion")) == {}


def test_pairs_are_mined_where_no_single_literal_will_do_and_subsumed_ones_are_dropped(mined) -> None:
    found = mined(
        rows("place", 6, "effect_fail", held="onion", pot="full"),
        rows("place", 6, "effect_fail", held="dish", pot="empty"),
        rows("place", 6, "effect_fail", held="dish", pot="full"),
        rows("place", 1, "success", held="onion", pot="empty"),
        rows("place", 1, "success", held="soup", pot="full"),
    )
    assert found == {"place: held=dish": 12, "place: held=onion & pot=full": 6}


def test_timeouts_fail_and_explicit_failures_say_nothing_about_effects(mined) -> None:
    found = mined(
        rows("go", 5, "timeout", held="a"),
        rows("go", 9, "explicit:NoPath", held="b"),
        rows("go", 1, "success", held="c"),
    )
    assert found == {"go: explicit=NoPath": 9, "go: held=a": 5}


def test_explicit_reasons_below_the_support_are_left_out(mined) -> None:
    assert mined(rows("go", 4, "explicit:NoPath"), rows("go", 1, "success")) == {}


def test_effects_without_a_private_part_are_judged_on_solo_records(mined) -> None:
    groups = (
        rows("cook", 5, "effect_fail", pot="empty"),
        rows("cook", 3, "success", solo=False, pot="empty"),  # the partner did it
        rows("cook", 1, "success", pot="full"),
        rows("cook", 9, "effect_fail", solo=False, pot="half"),
    )
    assert mined(*groups, solo_only=("cook",)) == {"cook: pot=empty": 5}
    assert mined(*groups) == {"cook: pot=half": 9}


def test_executions_that_raised_are_counted_and_no_evidence(recorded) -> None:
    raised = [("pick", "raised:KeyError", {}, True)] * 50
    library = mine([recorded(*raised, *rows("pick", 4, "effect_fail", held="onion"))])
    assert library.guards == ()
    assert library.certificate is not None
    assert library.certificate.burnins[0].raised == 50
    assert library.certificate.burnins[0].incomplete == 0


def test_a_missing_or_nan_feature_equals_nothing_and_is_counted(recorded) -> None:
    library = mine(
        [
            recorded(
                *rows("pick", 9, "effect_fail", held="nan", hour="odd"),
                *rows("pick", 9, "effect_fail", hour="odd"),
                *rows("pick", 5, "effect_fail", held="onion", hour="even"),
                *rows("pick", 1, "success", hour="odd"),
            )
        ]
    )
    assert [guard.when for guard in library.guards] == [{"held": "onion"}, {"hour": "even"}]
    assert library.certificate is not None
    assert library.certificate.burnins[0].incomplete == 19


@pytest.mark.parametrize("value", [3, True, ["onion"]])
def test_features_that_are_no_text_are_refused_by_name(value: object) -> None:
    with pytest.raises(RecordError, match=r"toy: pick: feature 'held' is .*Write it as text"):
        complete({"held": value}, "toy: pick")  # type: ignore[dict-item]
    assert complete({"held": float("nan"), "b": "x", "a": "y"}, "toy") == (("a", "y"), ("b", "x"))  # type: ignore[dict-item]


def test_outcomes_of_another_version_are_refused(recorded) -> None:
    with pytest.raises(RecordError, match=r"'gave_up'.*known are success"):
        mine([recorded(*rows("pick", 1, "gave_up"))])


def test_an_empty_burnin_is_refused_by_name(recorded) -> None:
    with pytest.raises(EmptyBurninError, match=r"toy/hands.*more episodes"):
        mine([recorded(*rows("pick", 1, "success")), recorded(seed=1)])


def test_an_absolute_effect_would_veto_the_right_guard(mined) -> None:
    """The first of the classic defects: silent no-ops logged as successes; the pattern shows as a missing guard."""
    delta = [rows("pick", 50, "effect_fail", held="onion"), rows("pick", 5, "success", held="none")]
    absolute = [rows("pick", 50, "success", held="onion"), rows("pick", 5, "success", held="none")]
    assert mined(*delta)
    assert not mined(*absolute)


def test_pooled_burnins_veto_each_other_and_share_the_support(recorded) -> None:
    fails = recorded(*rows("cook", 9, "effect_fail", held="none"), *rows("cook", 2, "timeout", solo=False, held="none"))
    works = recorded(*rows("cook", 1, "success", held="none"), seed=1)
    other = recorded(*rows("cook", 3, "effect_fail", held="none"), seed=1)
    assert mine([fails, works]).guards == ()
    library = mine([fails, other])
    (guard,) = library.guards
    assert guard.support == 14
    assert [(part.burnin, part.solo, part.team, part.timeouts) for part in guard.supports] == [
        (fails.digest, 9, 2, 2),
        (other.digest, 3, 0, 0),
    ]
    assert library.certificate is not None
    assert [(ref.records, ref.seed) for ref in library.certificate.burnins] == [(11, 0), (3, 1)]


def with_plan(burnin: Burnin, game: str = "toy/hands", **update: int) -> Burnin:
    return dataclasses.replace(burnin, game=game, plan=dataclasses.replace(burnin.plan, **update))


def test_the_same_episodes_never_count_twice(recorded) -> None:
    some = recorded(*rows("cook", 3, "effect_fail", held="none"))
    copy = with_plan(some)
    longer, solo = with_plan(some, team_episodes=9), with_plan(some, solo_episodes=2, team_episodes=0)
    for other in (some, copy, longer, solo, with_plan(some, horizon=21)):
        with pytest.raises(SameEpisodesError, match=r"toy/hands with seed 0 share episodes.*another seed"):
            mine([some, with_plan(some, seed=7), other])
    for other in (with_plan(some, seed=1), with_plan(some, game="toy/probe")):
        (guard,) = mine([some, other]).guards
        assert guard.support == 6


@pytest.mark.parametrize("least", [0, -3, True, 2.0])
def test_a_support_that_no_guard_can_rest_on_is_refused(recorded, least) -> None:
    with pytest.raises(SupportError, match=f"min_support must be a whole number of at least 1, not {least}"):
        mine([recorded(*rows("pick", 9, "success", held="none"))], least)


def test_different_contracts_do_not_mix(recorded) -> None:
    some = rows("pick", 1, "success")
    for pair in ([recorded(*some, digest="a"), recorded(*some, digest="b")], []):
        with pytest.raises(ContractMismatchError, match="Run them again"):
            mine(pair)


def test_the_order_of_records_does_not_matter_and_planted_rules_are_found(recorded) -> None:
    rng = random.Random(0)
    played = []
    for _ in range(3000):
        features = {name: rng.choice("abc") for name in ("x", "y", "z")}
        bad = features["x"] == "a" or (features["y"] == "b" and features["z"] == "c")
        played.append(("act", "effect_fail" if bad else "success", features))
    found = mine([recorded(*played)])
    rng.shuffle(played)
    again = mine([recorded(*played)])
    assert [(g.when, g.support) for g in found.guards] == [(g.when, g.support) for g in again.guards]
    assert [guard.when for guard in found.guards] == [{"x": "a"}, {"y": "b", "z": "c"}]
