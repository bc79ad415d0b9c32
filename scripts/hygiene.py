"""Repository hygiene: no machine paths, no registry hosts outside uv.lock, files of a readable size.

Prints each offence as path:line and exits 1 when there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PATHS = re.compile(r"(?<![\w./-])/(?:work|root|home/\w+|opt/wheels|Users/\w+)(?:/|\b)")
HOSTS = re.compile(r"(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org|download\.pytorch\.org)")
BINARY = {".safetensors", ".png", ".parquet", ".gif", ".jpg"}
MAX_LINES = 400
SHARE_UNDER = 0.9


def tracked() -> list[Path]:
    """Files that git tracks or would add."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    return [p for line in out.stdout.splitlines() if (p := Path(line)).is_file()]


def offences(path: Path) -> list[str]:
    """Lines of one text file that may not be there."""
    if path.suffix in BINARY or path.name == "uv.lock" or path == Path("scripts/hygiene.py"):
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return [
        f"{path}:{number}: {name}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        for name, pattern in (("machine path", PATHS), ("registry host", HOSTS))
        if pattern.search(line)
    ]


def long_files(paths: list[Path]) -> list[str]:
    """Source files over the line budget, if more than a tenth of them are."""
    sources = [p for p in paths if p.suffix == ".py" and "src" in p.parts and "_pb2" not in p.name]
    long = [p for p in sources if len(p.read_text(encoding="utf-8").splitlines()) > MAX_LINES]
    if len(long) <= (1 - SHARE_UNDER) * len(sources):
        return []
    return [f"{p}: over {MAX_LINES} lines, and so is more than a tenth of the source files" for p in long]


def main() -> int:
    """Checks the checkout in the current folder."""
    paths = tracked()
    found = [line for path in paths for line in offences(path)] + long_files(paths)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
