"""What is put before the model: rules, sources, evidence."""

from pathlib import Path

import pytest

from potluck_optionlib.drafting.allowed import MODULES
from potluck_optionlib.drafting.conversation import MAX_SOURCE_BYTES, first_request, read_sources, repair_request, rules
from potluck_optionlib.drafting.errors import SourceError
from potluck_optionlib.drafting.findings import Finding, Stage
from potluck_optionlib.drafting.messages import OutcomeRow
from potluck_optionlib.drafting.report import Report


def test_the_rules_name_every_module_that_may_be_imported() -> None:
    assert [module for module in MODULES if f"`{module}`" not in rules()] == []


def test_sources_are_sent_whole_under_names_that_tell_no_machine(tmp_path: Path) -> None:
    (tmp_path / "game/maps").mkdir(parents=True)
    (tmp_path / "game/rules.py").write_text('"""With ``` and ```` inside."""\n')
    (tmp_path / "game/maps/one.txt").write_text("#.#\n")
    (tmp_path / "game/maps/notes.bin").write_bytes(b"\xff\xfe")
    sources = read_sources([tmp_path / "game", tmp_path / "game/maps/one.txt", tmp_path / "game/rules.py"])
    assert [source.name for source in sources] == ["rules.py", "maps/one.txt"]
    text = first_request("a/b", "a note", sources)
    assert str(tmp_path) not in text
    assert '`````\n"""With ``` and ```` inside."""\n`````' in text
    assert "a note" in text
    assert "Notes" not in first_request("a/b", "", sources)


def test_sources_that_cannot_be_sent(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "zero.py").write_bytes(b"a\x00b")
    (tmp_path / "long.py").write_text("#" * (MAX_SOURCE_BYTES + 1))
    for name, why in (
        ("nowhere.py", "No such file"),
        ("empty", "without Python files"),
        ("binary.py", "not a text file"),
        ("zero.py", "not a text file"),
        ("long.py", "at most"),
    ):
        with pytest.raises(SourceError, match=why):
            read_sources([tmp_path / name])
    with pytest.raises(SourceError, match="at least one"):
        read_sources([])


def test_a_repair_holds_all_evidence() -> None:
    finding = Finding(
        stage=Stage.SUSPECT, kind="always_explicit", option="grab", evidence="all 9 failed.", counts={"NoPath": 9}
    )
    report = Report(
        version=0,
        findings=(finding,),
        records=12,
        outcomes=(OutcomeRow(option="grab", outcomes={"explicit:NoPath": 9, "success": 3}),),
        guards=("grab: held = ball (inferred, 9 failures)",),
    )
    text = repair_request(report)
    assert "1. [suspect/always_explicit] grab: all 9 failed. (NoPath 9)" in text
    assert "- grab: explicit:NoPath 9, success 3" in text
    assert "- grab: held = ball (inferred, 9 failures)" in text
