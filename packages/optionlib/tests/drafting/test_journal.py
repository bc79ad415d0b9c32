"""The record of a draft on the disk."""

import json
from pathlib import Path

import pytest

from potluck_optionlib.drafting.errors import DraftFolderError
from potluck_optionlib.drafting.journal import LOG, MANIFEST, Journal, read_log, sha256

IDENTITY = {"game": "a/b", "model": "m", "sources": [{"name": "x.py", "sha256": "1"}]}


def journal(folder: Path, **changes: object) -> Journal:
    return Journal(folder, {**IDENTITY, **changes})


def test_files_are_logged_with_their_digests_and_read_back(tmp_path: Path) -> None:
    first = journal(tmp_path / "new/draft")
    assert first.keep(0, "reply.json", b"said") == sha256(b"said")
    first.record(result="clean")
    first.close()
    again = journal(tmp_path / "new/draft")
    assert again.kept(0, "reply.json") == b"said"
    assert again.kept(1, "reply.json") is None
    again.close()
    log = read_log(again.folder)
    assert [event["event"] for event in log.events] == ["opened", "kept", "opened"]
    assert log.digests() == {"versions/000/reply.json": sha256(b"said")}
    assert json.loads((again.folder / MANIFEST).read_bytes())["result"] == "clean"
    assert not list(again.folder.rglob("*.part"))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_log_cut_anywhere_loses_its_last_line_only(tmp_path: Path, cut: int) -> None:
    first = journal(tmp_path)
    first.keep(0, "reply.json", b"said")
    first.event("last", text="x" * 80)
    first.close()
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[:-cut])
    log = read_log(tmp_path)
    assert (len(log.events), log.damaged) in {(2, 1), (3, 0)}
    again = journal(tmp_path)
    again.event("goes on")
    again.close()
    assert [event["event"] for event in read_log(tmp_path).events][-2:] == ["opened", "goes on"]
    assert again.kept(0, "reply.json") == b"said"


def test_changed_files_are_refused(tmp_path: Path) -> None:
    journal(tmp_path).keep(0, "reply.json", b"said")
    (tmp_path / "versions/000/reply.json").write_bytes(b"forged")
    with pytest.raises(DraftFolderError, match="changed after it was written"):
        journal(tmp_path).kept(0, "reply.json")


def test_a_file_that_was_written_but_not_logged_counts(tmp_path: Path) -> None:
    """The process may end between the two."""
    journal(tmp_path).keep(0, "request.json", b"asked")
    (tmp_path / "versions/000/reply.json").write_bytes(b"said")
    assert journal(tmp_path).kept(0, "reply.json") == b"said"


def test_another_draft_s_folder_is_refused(tmp_path: Path) -> None:
    journal(tmp_path).record(repairs=1)
    journal(tmp_path).record(repairs=5)
    with pytest.raises(DraftFolderError, match="another model, sources"):
        journal(tmp_path, model="n", sources=[])


def test_two_drafts_in_one_folder_at_once_are_refused(tmp_path: Path) -> None:
    first = journal(tmp_path)
    with pytest.raises(DraftFolderError, match="Another process is at work"):
        journal(tmp_path)
    first.close()
    journal(tmp_path).close()


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DraftFolderError, match="not empty"):
        journal(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(DraftFolderError, match="cannot be read"):
        journal(tmp_path)
