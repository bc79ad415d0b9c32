"""The synthesiser on records whose right guards are known, with controls that must not be mined."""

import random

import pytest

from potluck_optionlib.burnin import Burnin, BurninPlan, Record
from potluck_optionlib.errors import ContractMismatchError, GuardFormatError
from potluck_optionlib.guards import Channel, GuardLibrary
from potluck_optionlib.mining import mine


def records(option: str, count: int, outcome: str, solo: bool = True, **features: str) -> list[Record]:
    return [Record(0, solo, 0, 0, option, "", features, outcome) for _ in range(count)]


def burnin(*groups: list[Record], digest: str = "d", solo_only: tuple[str, ...] = ()) -> Burnin:
    return Burnin("toy", digest, solo_only, BurninPlan(1, 1, 0, 1), tuple(r for group in groups for r in group))


def mined(*groups: list[Record], **kwargs) -> dict[str, int]:
    guards = mine([burnin(*groups, **kwargs)]).guards
    return {f"{g.option}: " + " & ".join(f"{k}={v}" for k, v in sorted(g.when.items())): g.support for g in guards}


def test_five_failures_and_no_success_make_a_guard() -> None:
    held = records("pick", 5, "effect_fail", held="onion")
    assert mined(held, records("pick", 1, "success", held="none")) == {"pick: held=onion": 5}


def test_four_failures_do_not() -> None:
    assert mined(records("pick", 4, "effect_fail", held="onion"), records("pick", 1, "success", held="none")) == {}


def test_one_success_vetoes_a_thousand_failures() -> None:
    assert mined(records("pick", 1000, "effect_fail", held="onion"), records("pick", 1, "success", held="onion")) == {}


def test_pairs_are_mined_where_no_single_literal_will_do_and_subsumed_ones_are_dropped() -> None:
    found = mined(
        records("place", 6, "effect_fail", held="onion", pot="full"),
        records("place", 6, "effect_fail", held="dish", pot="empty"),
        records("place", 6, "effect_fail", held="dish", pot="full"),
        records("place", 1, "success", held="onion", pot="empty"),
        records("place", 1, "success", held="soup", pot="full"),
    )
    assert found == {"place: held=dish": 12, "place: held=onion & pot=full": 6}


def test_timeouts_fail_and_explicit_failures_say_nothing_about_effects() -> None:
    found = mined(
        records("go", 5, "timeout", held="a"),
        records("go", 9, "explicit:NoPath", held="b"),
        records("go", 1, "success", held="c"),
    )
    assert found == {"go: explicit=NoPath": 9, "go: held=a": 5}


def test_explicit_reasons_below_the_support_are_left_out() -> None:
    assert mined(records("go", 4, "explicit:NoPath"), records("go", 1, "success")) == {}


def test_effects_without_a_private_part_are_judged_on_solo_records() -> None:
    groups = (
        records("cook", 5, "effect_fail", pot="empty"),
        records("cook", 3, "success", solo=False, pot="empty"),  # the partner did it
        records("cook", 1, "success", pot="full"),
        records("cook", 9, "effect_fail", solo=False, pot="half"),
    )
    assert mined(*groups, solo_only=("cook",)) == {"cook: pot=empty": 5}
    assert mined(*groups) == {"cook: pot=half": 9}


def test_an_absolute_effect_would_veto_the_right_guard() -> None:
    """The paper's first defect: silent no-ops logged as successes; the pattern shows as a missing guard."""
    delta = [records("pick", 50, "effect_fail", held="onion"), records("pick", 5, "success", held="none")]
    absolute = [records("pick", 50, "success", held="onion"), records("pick", 5, "success", held="none")]
    assert mined(*delta)
    assert not mined(*absolute)


def test_pooled_burnins_veto_each_other() -> None:
    fails = burnin(records("cook", 9, "effect_fail", held="none"))
    works = burnin(records("cook", 1, "success", held="none"))
    assert mine([fails]).guards
    assert mine([fails, works]).guards == ()
    certificate = mine([fails, works]).certificate
    assert certificate is not None
    assert [ref.records for ref in certificate.burnins] == [9, 1]
    assert certificate.burnins[0].digest == fails.digest != works.digest


def test_different_contracts_do_not_mix() -> None:
    with pytest.raises(ContractMismatchError):
        mine([burnin(digest="a"), burnin(digest="b")])
    with pytest.raises(ContractMismatchError):
        mine([])


def test_the_order_of_records_does_not_matter_and_planted_rules_are_found() -> None:
    rng = random.Random(0)
    rows = []
    for _ in range(3000):
        features = {name: rng.choice("abc") for name in ("x", "y", "z")}
        bad = features["x"] == "a" or (features["y"] == "b" and features["z"] == "c")
        rows.append(Record(0, True, 0, 0, "act", "", features, "effect_fail" if bad else "success"))
    found = mine([burnin(rows)])
    rng.shuffle(rows)
    again = mine([burnin(rows)])
    assert found.guards == again.guards
    assert [guard.when for guard in found.guards] == [{"x": "a"}, {"y": "b", "z": "c"}]
    assert found.certificate is not None
    assert found.certificate.successes_under_guards == 0


def test_libraries_survive_json_and_name_themselves() -> None:
    library = mine([burnin(records("pick", 5, "effect_fail", held="onion"))])
    again = GuardLibrary.parse(library.dump())
    assert again == library
    assert again.digest == library.digest
    assert again.digest != GuardLibrary().digest
    assert again.library_digest("x") != again.library_digest("y")
    assert again.forbids("pick", {"held": "onion"})
    assert not again.forbids("pick", {"held": "none"})
    assert again.guards[0].channel is Channel.INFERRED
    library.check("d")
    with pytest.raises(ContractMismatchError, match="mining again"):
        library.check("other")


@pytest.mark.parametrize("text", ["[]", "{", '{"schema_version": 2}', '{"guard": []}'])
def test_unreadable_libraries_are_refused(text: str) -> None:
    with pytest.raises(GuardFormatError, match="Mine it again"):
        GuardLibrary.parse(text)
