"""Each pattern of a faulty contract, with records beside it that must raise no suspicion."""

import re
from html.parser import HTMLParser

import pytest

from potluck_optionlib.burnin.errors import SameEpisodesError
from potluck_optionlib.errors import ContractMismatchError
from potluck_optionlib.guards import NO_GUARDS
from potluck_optionlib.mining import mine
from potluck_optionlib.suspicion import Suspicion, SuspicionKind, examine
from potluck_optionlib.suspicion.show import page, table

HELD = {"held": "none"}
FINE = ("pick", "success", HELD, True, True, True)


@pytest.fixture
def found(recorded):
    def run(*rows: tuple, solo_only: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> dict[str, Suspicion]:
        burnin = recorded(*rows, solo_only=solo_only)
        return {s.kind.value: s for s in examine(burnin, mine([burnin]), options=options)}

    return run


def test_nothing_is_found_in_a_sound_burnin(found) -> None:
    rows = (
        *[FINE] * 9,
        *[("pick", "effect_fail", {"held": "dish"}, True, False, False)] * 9,
        *[("pick", "timeout", HELD, False)] * 9,
        *[("pick", "explicit:NoPath", HELD)] * 9,
    )
    assert found(*rows, options=("pick",)) == {}


def test_always_explicit(found) -> None:
    rows = [("drop", "explicit:NoPath", HELD)] * 6
    suspicion = found(*rows)[SuspicionKind.ALWAYS_EXPLICIT]
    assert suspicion.counts == {"explicit:NoPath": 6}
    assert "not only the nearest" in suspicion.evidence
    assert SuspicionKind.ALWAYS_EXPLICIT not in found(*rows, ("drop", "effect_fail", HELD))
    assert SuspicionKind.ALWAYS_EXPLICIT not in found(*rows[:4])


def test_an_effect_without_change(found) -> None:
    still = [("pick", "success", HELD, True, False, False)] * 5
    suspicion = found(*still, FINE)[SuspicionKind.EFFECT_WITHOUT_CHANGE]
    assert suspicion.counts == {"without_change": 5, "success": 6}
    assert found(*still[:4], FINE) == {}
    assert found(*[("wait", "success", {}, True, None, None)] * 50) == {}


@pytest.mark.parametrize("solo", [True, False])
def test_a_success_that_a_partner_may_have_caused(found, solo) -> None:
    shared = [("cook", "success", HELD, solo, False, True)] * 5
    suspicion = found(*shared)[SuspicionKind.UNATTRIBUTED_SUCCESS]
    assert suspicion.counts == {"unattributed": 5, "team": 0 if solo else 5, "success": 5}
    assert found(*shared, solo_only=("cook",)) == {}
    assert found(*[("cook", "success", HELD, solo, True, True)] * 5) == {}
    assert found(*[("cook", "success", HELD, solo, None, True)] * 5) == {}


def test_never_offered(found) -> None:
    fails = [("cook", "effect_fail", {"held": held}) for held in ("none", "dish") for _ in range(5)]
    suspicion = found(*fails)[SuspicionKind.NEVER_OFFERED]
    assert suspicion.counts == {"tried": 10, "guards": 2}
    assert SuspicionKind.NEVER_OFFERED not in found(*fails, ("cook", "success", {"held": "dish"}))
    assert SuspicionKind.NEVER_OFFERED not in found(*fails, ("cook", "effect_fail", {"held": "soup"}))


def test_never_offered_looks_at_solo_records_where_only_they_speak(found) -> None:
    fails = [("cook", "effect_fail", {"held": "none"})] * 5
    team = ("cook", "success", {"held": "dish"}, False)
    assert SuspicionKind.NEVER_OFFERED in found(*fails, team, solo_only=("cook",))
    assert SuspicionKind.NEVER_OFFERED not in found(*fails, team)


def test_never_chosen(found) -> None:
    assert found(*[FINE] * 5, options=("pick", "serve"))[SuspicionKind.NEVER_CHOSEN].option == "serve"
    assert found(*[FINE] * 5, options=("pick",)) == {}


def test_never_finishes(found) -> None:
    late = [("walk", "timeout", {})] * 5
    assert found(*late, ("walk", "explicit:NoPath", {}))[SuspicionKind.NEVER_FINISHES].counts["timeout"] == 5
    assert found(*late, ("walk", "effect_fail", {})) == {}
    assert found(*late[:4]) == {}


def test_raises(found) -> None:
    rows = [("pick", "raised:KeyError", {}), ("pick", "raised:ValueError", {}), *[FINE] * 5]
    assert found(*rows)[SuspicionKind.RAISES].counts == {"raised:KeyError": 1, "raised:ValueError": 1}
    assert found(*[FINE] * 5) == {}


def test_burnins_are_looked_at_together_and_must_fit(recorded) -> None:
    fails = recorded(*[("cook", "explicit:NoPath", HELD)] * 5)
    works = recorded(("cook", "success", HELD), seed=1)
    assert examine([fails], NO_GUARDS)
    assert examine([fails, works], NO_GUARDS) == ()
    library = mine([recorded(*[FINE] * 5, digest="other")])
    with pytest.raises(ContractMismatchError):
        examine(fails, library)
    with pytest.raises(SameEpisodesError, match="would count twice"):
        examine([fails, fails], NO_GUARDS)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_escapes_what_games_say(recorded) -> None:
    burnin = recorded(*[("<cook>", "explicit:No&Path", HELD)] * 6)
    library = mine([burnin])
    text = page([burnin], library, examine(burnin, library))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.links == []
    assert not re.search(r"https?://|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert "&lt;cook&gt;" in text
    assert "No&amp;Path 6" in text
    assert "<cook>" not in text
    assert "No pattern of a faulty contract" in page([burnin], library, ())


def test_the_table_names_option_and_pattern(recorded) -> None:
    burnin = recorded(*[("cook", "explicit:NoPath", HELD)] * 6)
    shown = table(examine(burnin, NO_GUARDS))
    assert shown.row_count == 1
    assert list(shown.columns[1].cells) == ["always_explicit"]
