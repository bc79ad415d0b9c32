"""Guard libraries that ship with a provider's package."""

from __future__ import annotations

from typing import Any, Protocol

from potluck_optionlib.errors import GuardFormatError


class Folder(Protocol):
    """A folder of package data, as importlib.resources.files gives it."""

    def joinpath(self, *descendants: str) -> Any: ...


def shipped(folder: Folder, name: str) -> str:
    """The text of "<name>.json" in a folder of guard libraries, or "" where there is no such file.

    Raises GuardFormatError for an empty file: it is no library without guards, it was cut.
    """
    resource = folder.joinpath(f"{name}.json")
    text = str(resource.read_text("utf-8")) if resource.is_file() else ""
    if resource.is_file() and not text.strip():
        raise GuardFormatError(
            f"{resource} is empty, which is no guard library: it was probably cut while it was written. Mine it again "
            "with `potluck-optionlib mine`, or remove it."
        )
    return text
