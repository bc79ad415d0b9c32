"""Made-up logs of the shape of Who&When: one of each author convention."""

import json

import pytest

from potluck_audit.foreign import read_folder


def _log(question, authors, agent, step, **changes):
    """Authors are names (algorithm-generated logs) or, where they hold a blank or say human, roles (hand-crafted)."""
    history = []
    for at, author in enumerate(authors):
        role = {"role": author} if author == "human" or " " in author else {"role": "assistant", "name": author}
        history.append({"content": f"words {at} of {question}", **role})
    labels = {"mistake_agent": agent, "mistake_step": str(step), "mistake_reason": "made up"}
    return {"question": question, "ground_truth": "42", "history": history, "is_correct": False, **labels} | changes


LOGS = {
    "Algorithm-Generated/1.json": _log("q1", ["Planner", "Coder", "Checker", "Coder"], "Coder", 1),
    "Algorithm-Generated/2.json": _log("q2", ["Coder", "Planner", "Coder", "Checker", "Planner"], "Coder", 2),
    "Algorithm-Generated/10.json": _log("q3", ["Planner", "Coder", "Checker"], "Planner", 0),
    "Hand-Crafted/1.json": _log(
        "q4",
        ["human", "Orchestrator (thought)", "Orchestrator (-> Web Surfer)", "Web Surfer", "Coder"],
        "web surfer",
        3,
    ),
    "Hand-Crafted/2.json": _log(
        "q5", ["human", *["Orchestrator (-> Web Surfer)", "Web Surfer"] * 6], "Orchestrator", 1, ground_truth=7
    ),
}


@pytest.fixture
def write_logs(tmp_path):
    def write(logs, folder="logs"):
        root = tmp_path / folder
        for name, data in logs.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return root

    return write


@pytest.fixture
def made_up():
    return _log


@pytest.fixture
def folder(write_logs):
    return write_logs(LOGS)


@pytest.fixture
def logs(folder):
    return read_folder(folder)
