"""Certificates re-derived from the records: every way in which one can be wrong has its control."""

import pytest

from potluck_optionlib.guards import Guard, GuardLibrary
from potluck_optionlib.mining import mine
from potluck_optionlib.verify import Flaw, rederive

ROWS = (
    *[("pick", "effect_fail", {"held": "onion", "item": "dish"})] * 6,
    *[("pick", "timeout", {"held": "onion", "item": "none"}, False)] * 2,
    *[("pick", "success", {"held": "none", "item": "dish"})] * 3,
    *[("pick", "explicit:NoPath", {"held": "none", "item": "dish"})] * 7,
    *[("ring", "success", {"held": "soup", "item": "none"}, False)] * 3,
    *[("ring", "effect_fail", {"held": "soup", "item": "none"})] * 5,
)


@pytest.fixture
def burnin(recorded):
    return recorded(*ROWS, solo_only=("ring",))


@pytest.fixture
def library(burnin) -> GuardLibrary:
    return mine([burnin])


def changed(library: GuardLibrary, place: int, **update: object) -> GuardLibrary:
    guards = list(library.guards)
    guards[place] = guards[place].model_copy(update=update)
    return library.model_copy(update={"guards": tuple(guards)})


def flaws(library: GuardLibrary, *burnins) -> list[Flaw]:
    return sorted({finding.flaw for finding in rederive(library, burnins)})


def test_what_was_mined_holds(library, burnin) -> None:
    assert [g.text for g in library.guards] == [
        "pick when explicit = NoPath",
        "pick when held = onion",
        "ring when held = soup",
        "ring when item = none",
    ]
    assert rederive(library, [burnin]) == ()


def test_a_guard_that_something_succeeded_under_does_not_hold(library, burnin) -> None:
    wrong = changed(library, 1, when={"held": "none"})
    assert flaws(wrong, burnin) == [Flaw.DOES_NOT_HOLD, Flaw.MISSING, Flaw.NOT_MINED, Flaw.SUPPORT]
    assert any("3 executions under it succeeded" in finding.text for finding in rederive(wrong, [burnin]))


def test_a_wrong_support_shows(library, burnin) -> None:
    assert flaws(changed(library, 0, support=8), burnin) == [Flaw.SUPPORT]
    assert flaws(changed(library, 1, support=7), burnin) == [Flaw.SUPPORT]
    part = library.guards[1].supports[0]
    moved = part.model_copy(update={"solo": part.solo - 1, "team": part.team + 1})
    assert flaws(changed(library, 1, supports=(moved,)), burnin) == [Flaw.SUPPORT]


def test_a_missing_guard_shows(library, burnin) -> None:
    for place in range(len(library.guards)):
        rest = tuple(g for i, g in enumerate(library.guards) if i != place)
        assert flaws(library.model_copy(update={"guards": rest}), burnin) == [Flaw.MISSING]


def test_a_guard_that_mining_drops_shows(library, burnin) -> None:
    subsumed = Guard(option="pick", channel="inferred", when={"held": "onion", "item": "dish"}, support=6)
    part = library.guards[1].supports[0].model_copy(update={"team": 0, "timeouts": 0})
    added = library.model_copy(update={"guards": (*library.guards, subsumed.model_copy(update={"supports": (part,)}))})
    assert flaws(added, burnin) == [Flaw.NOT_MINED]
    assert flaws(library.model_copy(update={"guards": (*library.guards, library.guards[0])}), burnin) == [
        Flaw.NOT_MINED
    ]


def test_other_records_are_a_digest_mismatch(library, burnin, recorded) -> None:
    other = recorded(*ROWS, ROWS[0], solo_only=("ring",))
    assert flaws(library, other) == [Flaw.DIGEST]
    assert flaws(library) == [Flaw.DIGEST]
    assert flaws(library, burnin, other) == [Flaw.DIGEST]


def test_records_of_other_contracts_show(library, recorded) -> None:
    other = recorded(*ROWS, solo_only=("ring",), digest="other")
    assert flaws(library, other) == [Flaw.CONTRACTS, Flaw.DIGEST]


def test_thresholds_and_what_is_said_of_the_burnin_are_checked(library, burnin) -> None:
    assert library.certificate is not None
    (ref,) = library.certificate.burnins
    for update in ({"seed": 3}, {"records": 1}, {"raised": 1}, {"game": "toy/other"}):
        certificate = library.certificate.model_copy(update={"burnins": (ref.model_copy(update=update),)})
        assert flaws(library.model_copy(update={"certificate": certificate}), burnin) == [Flaw.ORIGIN]
    looser = library.certificate.model_copy(update={"min_support": 8})
    assert Flaw.DOES_NOT_HOLD in flaws(library.model_copy(update={"certificate": looser}), burnin)
    longer = library.certificate.model_copy(update={"max_literals": 3})
    assert Flaw.THRESHOLDS in flaws(library.model_copy(update={"certificate": longer}), burnin)


def test_a_library_mined_below_the_usual_support_is_named(burnin) -> None:
    (finding,) = rederive(mine([burnin], 4), [burnin])
    assert finding.flaw is Flaw.THRESHOLDS
    assert finding.text == "min_support is 4, a guard should rest on 5 failures at least"
    assert rederive(mine([burnin], 5), [burnin]) == ()
    nothing = mine([burnin]).certificate.model_copy(update={"min_support": 0})
    assert Flaw.THRESHOLDS in flaws(mine([burnin]).model_copy(update={"certificate": nothing}), burnin)


def test_a_library_without_certificate_proves_nothing(burnin) -> None:
    assert flaws(GuardLibrary(), burnin) == [Flaw.NO_CERTIFICATE]
