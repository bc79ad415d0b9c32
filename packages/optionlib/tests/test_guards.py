"""Guard libraries as files: digests, edits by hand, other versions."""

import json

import pytest

from potluck_optionlib.errors import ContractMismatchError, GuardEditedError, GuardFormatError
from potluck_optionlib.guards import Channel, GuardLibrary
from potluck_optionlib.mining import mine

FAILS = ("pick", "effect_fail", {"held": "onion"})


@pytest.fixture
def library(recorded) -> GuardLibrary:
    return mine([recorded(*[FAILS] * 5)])


def test_libraries_survive_json_and_name_themselves(library) -> None:
    again = GuardLibrary.parse(library.dump())
    assert again == library
    assert again.digest == library.digest != GuardLibrary().digest
    assert again.library_digest("x") != again.library_digest("y")
    assert again.forbids("pick", {"held": "onion"})
    assert not again.forbids("pick", {"held": "none"})
    assert again.guards[0].channel is Channel.INFERRED
    assert again.guards[0].text == "pick when held = onion"
    library.check("d")
    with pytest.raises(ContractMismatchError, match="mining again"):
        library.check("other")


def test_the_same_guards_from_other_records_play_alike(library, recorded) -> None:
    more = mine([recorded(*[FAILS] * 6)])
    assert more.digest != library.digest
    assert more.library_digest("c") == library.library_digest("c")
    other = mine([recorded(*[("pick", "effect_fail", {"held": "dish"})] * 5)])
    assert other.library_digest("c") != library.library_digest("c")


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data["guards"].clear(),
        lambda data: data["guards"][0].update(support=6),
        lambda data: data["guards"][0]["when"].update(held="none"),
        lambda data: data["certificate"].update(min_support=4),
        lambda data: data["certificate"]["burnins"][0].update(seed=1),
        lambda data: data.pop("digest"),
        lambda data: data.update(digest="0" * 64),
    ],
)
def test_an_edit_by_hand_shows(library, edit) -> None:
    data = json.loads(library.dump())
    edit(data)
    with pytest.raises(GuardEditedError, match=r"changed after it was mined.*remine"):
        GuardLibrary.parse(json.dumps(data))
    GuardLibrary.parse(json.dumps(data), check_digest=False)


def test_layout_of_the_file_is_no_edit(library) -> None:
    assert GuardLibrary.parse(json.dumps(json.loads(library.dump()), sort_keys=True)) == library


def test_guards_of_ones_own_need_no_digest() -> None:
    text = '{"guards": [{"option": "go", "channel": "inferred", "when": {"x": "1"}, "support": 9}]}'
    assert GuardLibrary.parse(text).forbids("go", {"x": "1"})
    assert GuardLibrary.parse("\n") == GuardLibrary()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "not a JSON object"),
        ("{", "Expecting"),
        ('{"schema_version": 3}', "schema version 3, this program reads 2"),
        ('{"guard": []}', "guard: Extra inputs"),
        ('{"guards": [{"option": "go", "channel": "felt", "when": {}, "support": 1}]}', "guards.0.channel"),
    ],
)
def test_unreadable_libraries_are_refused_with_the_field(text: str, problem: str) -> None:
    with pytest.raises(GuardFormatError, match=f"{problem}.*Mine it again"):
        GuardLibrary.parse(text)
