import re
from pathlib import Path

import pytest

from potluck_audit.foreign import read_folder
from potluck_audit.foreign.errors import MalformedLog, NoLogs


def test_logs_are_read_in_natural_order_with_their_group(logs):
    assert [log.name for log in logs] == [
        "Algorithm-Generated/1.json", "Algorithm-Generated/2.json", "Algorithm-Generated/10.json",
        "Hand-Crafted/1.json", "Hand-Crafted/2.json",
    ]  # fmt: skip
    assert [log.group for log in logs] == ["Algorithm-Generated"] * 3 + ["Hand-Crafted"] * 2
    assert (logs[1].question, logs[1].mistake_agent, logs[1].mistake_step) == ("q2", "Coder", 2)
    assert logs[4].ground_truth == "7"


def test_authors_are_names_or_roles_without_suffix_and_the_asker_is_no_agent(logs):
    assert logs[0].agents == ("Planner", "Coder", "Checker")
    assert [m.speaker for m in logs[3].history] == ["human", "Orchestrator", "Orchestrator", "Web Surfer", "Coder"]
    assert logs[3].agents == ("Orchestrator", "Web Surfer", "Coder")
    assert logs[3].agent_steps == (1, 2, 3, 4)


def test_two_spellings_of_a_name_are_one_agent(write_logs, made_up):
    [log] = read_folder(write_logs({"1.json": made_up("q", ["WebSurfer", "Websurfer", "Coder"], "Coder", 2)}))
    assert log.agents == ("WebSurfer", "Coder")
    assert log.group == ""


def test_odd_labels_are_told(write_logs, made_up, logs):
    assert all(log.label_agrees for log in logs)
    [odd] = read_folder(write_logs({"1.json": made_up("q", ["Planner", "Coder"], "Coder", 0)}, "odd"))
    assert not odd.label_agrees


BAD = {
    "mistake_agent": [({"mistake_agent": None}, "is missing"), ({"mistake_agent": " "}, "is empty")],
    "mistake_step": [
        ({"mistake_step": "1.0"}, "not a whole number"),
        ({"mistake_step": "step 1"}, "not a whole number"),
        ({"mistake_step": True}, "not a whole number"),
        ({"mistake_step": ""}, "not a whole number"),
        ({"mistake_step": "2"}, "history has the steps 0 to 1"),
        ({"mistake_step": -1}, "history has the steps 0 to 1"),
        ({"mistake_step": None}, "is missing"),
    ],
    "question": [({"question": 3}, "is a number and not text"), ({"question": None}, "is missing")],
    "ground_truth": [({"ground_truth": ["a"]}, "is a list and not text")],
    "history": [({"history": []}, "is empty"), ({"history": {}}, "is an object and not a list")],
    "history[0]": [({"history": ["hello"]}, "is text and not an object")],
    "history[0].role": [({"history": [{"content": "x"}]}, "nobody says this")],
    "history[0].name": [({"history": [{"content": "x", "name": 3}]}, "is a number")],
    "history[0].content": [({"history": [{"content": [], "role": "a"}]}, "is a list")],
}


@pytest.mark.parametrize(("field", "change", "why"), [(f, c, w) for f, cases in BAD.items() for c, w in cases])
def test_errors_name_file_and_field(write_logs, made_up, field, change, why):
    folder = write_logs({"sub/3.json": made_up("q", ["A", "B"], "A", 0) | change})
    with pytest.raises(MalformedLog, match=why) as refused:
        read_folder(folder)
    assert refused.value.metadata["field"] == field
    assert refused.value.message.startswith(f"3.json: {field} ")


@pytest.mark.parametrize("text", ["{", "[1]", "", "null"])
def test_a_file_that_is_no_object_is_named(write_logs, text):
    with pytest.raises(MalformedLog, match=r"9\.json: the file "):
        read_folder(write_logs({"9.json": text}))


def test_a_folder_without_logs(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoLogs, match=r"no \.json files"):
            read_folder(folder)


def page():
    return (Path(__file__).parents[4] / "docs" / "audit" / "foreign-logs.md").read_text(encoding="utf-8")


def test_the_page_s_log_is_of_the_format(write_logs):
    [text] = re.findall(r"```json\n(.*?)```", page(), re.DOTALL)
    [log] = read_folder(write_logs({"1.json": text}))
    assert log.agents == ("Orchestrator", "WebSurfer")
    assert log.label_agrees
    with pytest.raises(MalformedLog, match="mistake_step"):
        read_folder(write_logs({"1.json": text.replace('"2"', '"3"')}))


def test_the_page_s_example_runs_word_for_word(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder.parent)
    [code] = re.findall(r"```python\n(.*?)```", page(), re.DOTALL)
    exec(compile(code, "foreign-logs.md", "exec"), {})
    rows = dict.fromkeys(line.rsplit(" ", 3)[0] for line in capsys.readouterr().out.splitlines())
    assert {"uniform random", "last step", "last speaker"} <= set(rows)
