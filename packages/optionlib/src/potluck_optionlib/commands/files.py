"""Guard libraries and reports as files: read whole or refused by name, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from potluck_optionlib.burnin.shards import write_sealed
from potluck_optionlib.errors import GuardFormatError, OptionlibError
from potluck_optionlib.games import shipped_guards
from potluck_optionlib.guards import GuardLibrary


class OutputError(OptionlibError):
    """A result cannot be written where it was asked for."""


def read_library(path: Path, *, check_digest: bool = True) -> GuardLibrary:
    """The library in a file. Raises GuardFormatError or GuardEditedError naming the file, also for an empty one."""
    return parse_library(read_text(path), path, check_digest=check_digest)


def named_library(game: str, path: Path | None, *, check_digest: bool = True) -> tuple[GuardLibrary, str]:
    """A library and its text: the file's, or the one that the game's provider ships ("" is the one without guards)."""
    if path is None:
        text = shipped_guards(game)
        return parse_library(text, f"{game}, as shipped", check_digest=check_digest), text
    text = read_text(path)
    return parse_library(text, path, check_digest=check_digest), text


def read_text(path: Path) -> str:
    """The text of a library's file, never empty."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise GuardFormatError(f"{path} cannot be read: {error.strerror or error}. Name a guard library.") from error
    except UnicodeDecodeError as error:
        raise GuardFormatError(f"{path} is no guard library: it is not UTF-8 text ({error.reason}).") from error
    if not text.strip():
        raise GuardFormatError(
            f"{path} is empty, which is no guard library: it was probably cut while it was written. Mine it again with "
            "`potluck-optionlib mine` or `remine`."
        )
    return text


def parse_library(text: str, origin: Path | str, *, check_digest: bool) -> GuardLibrary:
    """`GuardLibrary.parse` with the origin in its errors."""
    try:
        return GuardLibrary.parse(text, check_digest=check_digest)
    except GuardFormatError as error:
        raise type(error)(f"{origin}: {error}") from error


def check_output(path: Path) -> None:
    """Raises OutputError where no file can be written; to be asked before long work, not after it."""
    if not path.parent.is_dir():
        raise OutputError(f"{path} cannot be written: there is no folder {path.parent}. Make it, or name another file.")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} cannot be written: it is there and is no file. Name another file.")


def write_text(path: Path, text: str) -> None:
    """Writes aside, flushes and renames: what was there stays whole until all of the new text is on the disk."""
    check_output(path)
    write_sealed(path.resolve(), text.encode())
