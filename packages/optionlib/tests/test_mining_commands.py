"""The command line from burn-in to a verified library, and what each command says when something is wrong."""

import errno
import json
import os
import re

import pytest

from potluck_optionlib import cli, games

SMALL = ["--solo-episodes", "6", "--team-episodes", "6"]


@pytest.fixture
def toyland(toy, monkeypatch):
    provider = toy.ToyProvider()
    monkeypatch.setattr(games, "find_provider", lambda name: provider)
    return provider


@pytest.fixture
def mined(toyland, tmp_path):
    """A burn-in and its library, as files."""
    records, library = tmp_path / "b.parquet", tmp_path / "g.json"
    cli.main(["burnin", "toy/hands", "--out", str(records), *SMALL, "--horizon", "20"])
    cli.main(["mine", str(records), "--out", str(library)])
    return records, library


def code(*args: object) -> int:
    """Exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        cli.main([str(arg) for arg in args])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def edited(library, **update: object) -> None:
    """An edit that keeps the file's own digest right, as somebody would who means to deceive."""
    from potluck_optionlib.guards import GuardLibrary

    data = {**json.loads(library.read_text()), **update}
    data.pop("digest")
    library.write_text(GuardLibrary.model_validate(data).dump())


def test_certificates_are_rederived_from_records_or_by_playing_again(mined, capsys) -> None:
    records, library = mined
    cli.main(["verify", str(library), "--burnin", str(records)])
    cli.main(["verify", str(library)])
    assert capsys.readouterr().out.count("certificates hold") == 2


def test_a_certificate_that_does_not_hold_fails_the_command(mined, capsys) -> None:
    records, library = mined
    guards = json.loads(library.read_text())["guards"]
    edited(library, guards=guards[1:])
    assert code("verify", library, "--burnin", records) == 1
    assert "missing: " in capsys.readouterr().out
    assert code("verify", library) == 1


def test_an_edited_file_fails_every_command_with_the_cure(mined, capsys) -> None:
    records, library = mined
    library.write_text(library.read_text().replace("inferred", "explicit", 1))
    for args in (["verify", library], ["report", library], ["heldout", "toy/hands", library], ["suspect", records]):
        if args[0] == "suspect":
            args += ["--library", library]
        assert code(*args) == 2
        assert "changed after it was mined" in " ".join(capsys.readouterr().err.split())


def test_held_out_play_agrees_and_a_wrong_guard_shows(mined, capsys) -> None:
    _, library = mined
    cli.main(["heldout", "toy/hands", str(library), *SMALL])
    assert "0 hidden successes of" in capsys.readouterr().out
    edited(library, guards=[{"option": "grab", "channel": "inferred", "when": {"held": "none"}, "support": 5}])
    assert code("heldout", "toy/hands", library, *SMALL) == 1
    out = capsys.readouterr().out
    assert "grab with held = none" in out
    assert "two-sided 95% interval" in out


def test_a_shipped_library_can_be_mined_again_bit_for_bit(mined, toyland, tmp_path, capsys) -> None:
    _, library = mined
    toyland.guards = lambda name: library.read_text()
    again = tmp_path / "again.json"
    cli.main(["remine", "toy/hands", "--out", str(again)])
    assert "the same bytes" in capsys.readouterr().out
    assert again.read_bytes() == library.read_bytes()
    edited(library, guards=[])
    assert code("remine", "toy/hands") == 1
    assert "the guards too" in capsys.readouterr().out


def test_a_library_without_certificate_cannot_be_mined_again(mined, tmp_path, capsys) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"guards": []}')
    assert code("remine", "toy/hands", "--library", own) == 2
    assert code("verify", own) == 2
    assert "no certificate" in capsys.readouterr().err
    assert code("verify", own, "--burnin", mined[0]) == 1


def test_suspicions_as_table_and_page(mined, tmp_path, capsys) -> None:
    records, library = mined
    page = tmp_path / "page.html"
    cli.main(["suspect", str(records), "--library", str(library), "--html", str(page)])
    assert "no pattern of a faulty contract" in capsys.readouterr().out
    assert "toy/hands" in page.read_text()


def test_an_unknown_game_and_an_empty_burnin_are_said(toyland, tmp_path, capsys) -> None:
    assert code("heldout", "toy/nothing", tmp_path / "none.json") == 2
    records = tmp_path / "b.parquet"
    assert code("burnin", "toy/nothing", "--out", records) == 2
    assert "known: toy/hands" in capsys.readouterr().err


@pytest.fixture
def full_disk(monkeypatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def test_a_full_disk_leaves_the_library_that_was_there(mined, full_disk, tmp_path, capsys) -> None:
    records, library = mined
    before, page = library.read_bytes(), tmp_path / "page.html"
    assert code("mine", records, "--out", library) == 2
    assert code("remine", "toy/hands", "--library", library, "--out", library) == 2
    assert code("mine", records, "--out", tmp_path / "new.json") == 2
    assert code("suspect", records, "--html", page) == 2
    assert capsys.readouterr().err.count("No space left on device") == 4
    assert library.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.parquet", "g.json"]


BROKEN = {
    "empty": (b"", "is empty, which is no guard library.*Mine it again"),
    "blank": (b" \n", "is empty"),
    "latin": (b'{"guards": "\xe9"}', "not UTF-8"),
    "number": (b'{"digest": 5}', "digest must be text, not 5"),
    "null": (b'{"digest": null}', "digest must be text, not None"),
    "float": (b'{"digest": 1.5}', r"digest must be text, not 1\.5"),
    "deep": (b"[" * 100_000, "Not a guard library"),
    "folder": (None, "cannot be read: Is a directory"),
    "absent": (None, "cannot be read: No such file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_library_is_refused_by_name_everywhere(mined, tmp_path, capsys, name) -> None:
    content, complaint = BROKEN[name]
    path = tmp_path / f"{name}.json"
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    for args in (
        ["report", path],
        ["verify", path, "--burnin", mined[0]],
        ["heldout", "toy/hands", path, *SMALL],
        ["suspect", mined[0], "--library", path],
        ["remine", "toy/hands", "--library", path],
    ):
        assert code(*args) == 2
        assert re.search(f"{name}.json.*{complaint}", " ".join(capsys.readouterr().err.split()))


def test_a_provider_without_guards_has_the_library_without_guards(mined, capsys) -> None:
    cli.main(["heldout", "toy/hands", *SMALL])
    assert "0 of them under a guard" in capsys.readouterr().out


def test_where_nothing_can_be_written_nothing_is_played(toy, mined, tmp_path, capsys, monkeypatch) -> None:
    def reset(self, seed):
        raise AssertionError("played")

    records, library = mined
    monkeypatch.setattr(toy.ToyGame, "reset", reset)
    monkeypatch.setattr(toy.ToyGame, "__init__", reset)
    assert code("burnin", "toy/hands", "--out", tmp_path / "no" / "x.parquet") == 2
    assert code("remine", "toy/hands", "--library", library, "--out", tmp_path / "no" / "x.json") == 2
    assert code("mine", records, "--out", tmp_path / "no" / "x.json") == 2
    assert capsys.readouterr().err.count("there is no folder") == 3
    assert code("mine", records, "--out", tmp_path) == 2
    assert "is no file" in capsys.readouterr().err


def test_a_burnin_counts_once_and_missing_files_are_named(mined, tmp_path, capsys) -> None:
    records, library = mined
    assert code("suspect", records, records, "--library", library) == 2
    assert "share episodes" in capsys.readouterr().err
    for command in (("suspect", tmp_path / "none"), ("verify", tmp_path / "none"), ("mine", tmp_path / "a.parquet")):
        assert code(*command, *(("--out", tmp_path / "x.json") if command[0] == "mine" else ())) == 2
        said = capsys.readouterr().err
        assert str(command[1]) in said.replace("\n", "")
        assert "Errno" not in said


def test_nothing_to_look_at_is_an_error(mined, capsys) -> None:
    assert code("suspect", "--library", mined[1]) == 2
    assert "burnins is empty" in capsys.readouterr().err
    assert code("check", "toy/hands", "--episodes", "-1") == 2
    assert "episodes must be 0 or more, not -1" in capsys.readouterr().err


def test_mining_refuses_what_would_count_twice_or_on_nothing(mined, tmp_path, capsys) -> None:
    records, _ = mined
    out = tmp_path / "twice.json"
    assert code("mine", records, records, "--out", out) == 2
    assert "share episodes" in capsys.readouterr().err
    assert code("mine", records, "--out", out, "--min-support", "0") == 2
    assert "min_support must be" in capsys.readouterr().err
    assert not out.exists()


def test_held_out_play_of_the_librarys_own_seed_is_refused(mined, capsys) -> None:
    assert code("heldout", "toy/hands", mined[1], "--solo-episodes", "2", "--team-episodes", "0", "--seed", "0") == 2
    assert "Play another seed" in capsys.readouterr().err


def test_a_game_that_leaves_is_not_checked_as_sound(toy, toyland, capsys, monkeypatch) -> None:
    def leave(self):
        raise SystemExit(0)

    monkeypatch.setattr(toy.ToyGame, "step", leave)
    assert code("check", "toy/hands") == 1
    assert "raises: step: it raised SystemExit: 0" in capsys.readouterr().out
