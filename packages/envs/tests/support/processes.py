"""Processes by /proc, for tests."""

from __future__ import annotations

import os
from pathlib import Path


def children(parent: int, containing: str) -> list[int]:
    """Child processes whose command line contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if (
            entry.name.isdecimal()
            and _parent(int(entry.name)) == parent
            and containing in command_line(int(entry.name))
        ):
            found.append(int(entry.name))
    return found


def command_line(pid: int) -> str:
    """Of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


assert os.path.exists("/proc/self/stat"), "these tests need Linux"
