"""docs/add-a-game.md does what it says: its package is installed from its text, its commands are run in its order."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("plugin_page", Path(__file__).with_name("plugin_page.py"))
assert spec is not None
assert spec.loader is not None
plugin_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugin_page)

PAGE = Path(__file__).parents[1] / "docs" / "add-a-game.md"
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run(command: str, env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    name, *rest = shlex.split(command)
    program = BIN / name if (BIN / name).exists() else name
    return subprocess.run([program, *rest], cwd=folder, env=env, capture_output=True, text=True, timeout=900)


INSTALL = "uv pip install --no-deps -e ."


class Follower:
    """Somebody who does what the page says, and what came of each command.

    The package is installed beside the environment that runs the tests instead of into it, so that it leaves no trace
    there, and built with the setuptools that are there, so that nothing is fetched.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        blocks = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
        (folder / "yard_game.py").write_text(BLOCK.search(PAGE.read_text(encoding="utf-8")).group(2))  # type: ignore[union-attr]
        (folder / "pyproject.toml").write_text(blocks["toml"])
        self.site = folder / "site"
        self.env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{self.site}"}
        self.said: dict[str, str] = {}
        self.shown: list[tuple[str, str]] = []
        """(a line that the page shows, what the commands before it said)."""

    def follow(self) -> None:
        """Runs every command; raises where one fails."""
        latest = ""
        for language, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if language == "sh":
                latest = "".join(self.do(line) for line in body.strip().splitlines())
            elif language == "text":
                self.shown += [(line, latest) for line in body.strip().splitlines()]

    def do(self, command: str) -> str:
        """Runs one command."""
        told = command
        if command == INSTALL:
            where = f"--python {sys.executable} --no-build-isolation --offline --target {self.site}"
            told = f"uv pip install --no-deps {where} ."
        done = run(told, self.env, self.folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        self.said[command] = done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Follower:
    follower = Follower(tmp_path_factory.mktemp("yard"))
    follower.follow()
    return follower


def test_the_package_of_the_page_is_found_once_it_is_installed(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    check = "potluck-optionlib check yard/door --episodes 1"
    assert run(check, follower.env, tmp_path).returncode == 2
    follower.do(INSTALL)
    assert INSTALL in PAGE.read_text(encoding="utf-8")
    assert "keep every rule" in follower.do(check)
    metadata = next(follower.site.glob("yard_game-0.1.dist-info/METADATA")).read_text()
    assert "Requires-Dist: potluck-optionlib" in metadata


def words(text: str) -> list[str]:
    """The words of a table, whatever drew it."""
    return re.sub(r"[^\w\s]", " ", text).split()


@pytest.mark.learning
@pytest.mark.timeout(1200)
def test_every_command_of_the_page_works_and_a_team_learns(followed: Follower) -> None:
    commands = " ".join(followed.said)
    for name in (
        "uv pip install",
        "check",
        "burnin",
        "mine",
        "verify",
        "heldout",
        "suspect",
        "conform",
        "potluck train",
    ):
        assert name in commands
    metrics = (followed.folder / "runs/yard/metrics.jsonl").read_text().splitlines()
    returns = [json.loads(line)["return_mean"] for line in metrics]
    assert len(returns) == 20
    assert sum(returns[-4:]) > 1.3 * sum(returns[:4])


@pytest.mark.learning
@pytest.mark.timeout(1200)
def test_the_page_shows_the_guards_that_are_mined(followed: Follower) -> None:
    guards = json.loads((followed.folder / "guards/door.json").read_text())["guards"]
    mined = {
        " ".join([guard["option"], guard["channel"], *(f"{name} = {value}" for name, value in guard["when"].items())])
        for guard in guards
    }
    assert followed.shown
    assert {line for line, _ in followed.shown} == mined
    for line, said in followed.shown:
        assert set(words(line)) <= set(words(said))


@pytest.mark.learning
@pytest.mark.timeout(1200)
def test_nobody_gets_a_crate_through_alone(followed: Follower) -> None:
    code = """
import collections, pathlib
from potluck_optionlib.burnin import load
table = load(pathlib.Path("burnin")).table
rows = collections.Counter(
    (row["solo"], row["outcome"]) for row in table.select(["solo", "option", "outcome"]).to_pylist()
    if row["option"] == "press"
)
print(rows[True, "success"], rows[False, "success"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=followed.folder, env=followed.env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    alone, together = map(int, done.stdout.split())
    assert alone == 0
    assert together > 50


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (
            'change.before["held"] == "none" and change.after["held"] == "crate"',
            'change.after["held"] == "crate"',
            "absolute_effect",
        ),
        ('executor=Reach("use"),', 'executor=Reach("grab"),', "grab"),
        ('reads=("held",)', 'reads=("mate_held",)', "mate_held"),
    ],
)
def test_a_contract_of_the_page_with_a_fault_is_named(tmp_path: Path, right: str, wrong: str, fault: str) -> None:
    env = plugin_page.install("../add-a-game", tmp_path)
    module = tmp_path / "yard_game.py"
    text = module.read_text()
    assert right in text
    module.write_text(text.replace(right, wrong, 1))
    done = run("potluck-optionlib check yard/door", env, tmp_path)
    assert done.returncode != 0
    assert fault in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_an_author_writes_fits_on_a_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = next(body for language, body in BLOCK.findall(text) if language == "python")
    world, contracts = code.index("class Yard(World)"), code.index("def contracts(world)")
    assert code[world:contracts].count("\n") < 80
    assert code[contracts:].count("\n") < 45
    assert "docs/plugins/game.md" in text or "plugins/game.md" in text
    assert "add-a-game.md" in (PAGE.parent / "plugins" / "game.md").read_text(encoding="utf-8")
