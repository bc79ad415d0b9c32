"""Played line-ups on disk: what is kept comes back, and what was spoiled is an error and never a number."""

import json

import pytest

from potluck_audit.counterfactual.shelf import CorruptCache, Played, Shelf
from potluck_audit.errors import CannotWrite, NewerSchema

KEY = {"for": "eval/trained", "seats": {"agent_0": "own " + "a" * 64}, "draws": [[1, 2], [3, 4]]}
PLAYED = (
    Played(1, 2, 3.0, (1.0, 2.0), 40, "c" * 64),
    Played(3, 4, 0.5, (0.5, 0.0), 40, "d" * 64, b"recording", b"\x00\xffsteps"),
)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


def test_what_was_put_comes_back(shelf):
    assert shelf.get(KEY) is None
    shelf.put(KEY, PLAYED)
    assert shelf.get(KEY) == PLAYED
    assert shelf.get(KEY | {"draws": [[1, 2]]}) is None, "other seeds are another line-up"
    assert [p.suffix for p in shelf.folder.iterdir()] == [".json"], "nothing is left aside"


def test_a_half_written_line_up_is_not_used(shelf):
    shelf.put(KEY, PLAYED)
    file = shelf.file(KEY)
    file.rename(file.with_name(f".{file.name}.123.tmp"))
    assert shelf.get(KEY) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: b"",
        lambda text: b"[]",
        lambda text: text.replace(b'"team_return":3.0', b'"team_return":9.0'),
        lambda text: text.replace(b'"agent_0":"own aa', b'"agent_0":"own bb'),
        lambda text: b"\xff" + text,
    ],
)
def test_a_spoiled_line_up_is_an_error_that_names_the_file(shelf, spoil):
    shelf.put(KEY, PLAYED)
    file = shelf.file(KEY)
    spoiled = spoil(file.read_bytes())
    assert spoiled != file.read_bytes()
    file.write_bytes(spoiled)
    with pytest.raises(CorruptCache, match=file.name) as caught:
        shelf.get(KEY)
    assert "delete the file" in caught.value.cure


def test_a_line_up_under_another_name_is_an_error(shelf):
    """As after a copy by hand: whole, and still not what was asked for."""
    shelf.put(KEY, PLAYED)
    other = KEY | {"for": "eval/other"}
    shelf.file(KEY).rename(shelf.file(other))
    with pytest.raises(CorruptCache, match="another line-up"):
        shelf.get(other)


def test_a_newer_version_is_refused(shelf):
    shelf.put(KEY, PLAYED)
    data = json.loads(shelf.file(KEY).read_text())
    shelf.file(KEY).write_text(json.dumps(data | {"schema_version": 99}))
    with pytest.raises(NewerSchema):
        shelf.get(KEY)


def test_no_room_is_a_typed_error(tmp_path):
    (tmp_path / "audit").write_text("a file where a folder should be")
    with pytest.raises(CannotWrite):
        Shelf(tmp_path).put(KEY, PLAYED)


def test_a_return_that_is_no_number_is_not_kept(shelf):
    with pytest.raises(ValueError, match="is no return"):
        shelf.put(KEY, [PLAYED[0]._replace(team_return=float("nan"))])
    assert shelf.get(KEY) is None
