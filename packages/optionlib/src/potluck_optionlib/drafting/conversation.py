"""The words that go to the model: the rules, the game's source, and what was found out about its last version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from potluck_optionlib.drafting.errors import SourceError
from potluck_optionlib.drafting.journal import sha256
from potluck_optionlib.drafting.messages import OutcomeRow
from potluck_optionlib.drafting.report import Report

MAX_SOURCE_BYTES = 1_000_000
_RUN = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the game's source, as it is sent."""

    name: str
    """Its path below the folder that all files share; no path of this machine is sent."""
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode())


def read_sources(paths: Sequence[Path]) -> tuple[SourceFile, ...]:
    """Files as given, and the Python files of folders, sorted. Raises SourceError."""
    found: list[Path] = []
    for path in paths:
        inner = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        if not inner:
            raise SourceError(f"--game-source {path}: a folder without Python files.")
        found += [file.absolute() for file in inner]
    found = list(dict.fromkeys(found))
    if not found:
        raise SourceError("--game-source: name at least one file of the game's source.")
    shared = _shared_folder(found)
    sources = tuple(SourceFile(path.relative_to(shared).as_posix(), _text(path)) for path in found)
    size = sum(len(source.text.encode()) for source in sources)
    if size > MAX_SOURCE_BYTES:
        raise SourceError(
            f"--game-source: {len(sources)} files have {size} bytes, at most {MAX_SOURCE_BYTES} are sent. "
            "Name only the files that hold the rules."
        )
    return sources


def rules() -> str:
    """The fixed part, the same for every game."""
    return files(__package__).joinpath("prompt.md").read_text("utf-8")


def first_request(game: str, notes: str, sources: Sequence[SourceFile]) -> str:
    """The game, in full."""
    parts = [f"The game is `{game}`."]
    if notes:
        parts.append(f"# Notes on its contracts\n{notes.strip()}")
    parts.append("# Source")
    for source in sources:
        fence = "`" * (1 + max([2, *(len(run) for run in _RUN.findall(source.text))]))
        parts.append(f"File `{source.name}`:\n{fence}\n{source.text.rstrip()}\n{fence}")
    parts.append(f"Write the module for `{game}`.")
    return "\n\n".join(parts) + "\n"


def repair_request(report: Report) -> str:
    """Everything that was found out about a version, with the evidence."""
    lines = [f"{number}. {finding.line()}" for number, finding in enumerate(report.findings, 1)]
    parts = ["Your module is not right yet. This was found:", "\n".join(lines)]
    if report.outcomes:
        parts += [f"How {report.records} executions ended in random play:", "\n".join(map(_row, report.outcomes))]
    if report.guards:
        guards = [f"- {guard}" for guard in report.guards]
        parts += ["Guards that were mined from it (an option is left out of the menu when):", "\n".join(guards)]
    parts.append("Answer with the whole corrected module in one fenced block.")
    return "\n\n".join(parts) + "\n"


def _row(row: OutcomeRow) -> str:
    return f"- {row.option}: " + ", ".join(f"{outcome} {count}" for outcome, count in row.outcomes.items())


def _text(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SourceError(f"--game-source {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"--game-source {path}: not a text file (UTF-8).") from error
    if "\x00" in text:
        raise SourceError(f"--game-source {path}: not a text file.")
    return text


def _shared_folder(paths: Sequence[Path]) -> Path:
    parents = [path.parents for path in paths]
    return next(folder for folder in parents[0] if all(folder in others for others in parents))
