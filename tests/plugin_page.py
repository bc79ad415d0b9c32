"""Turns a page of docs/plugins into an installed package: its python block and its entry-point block, word for word."""

from __future__ import annotations

import os
import re
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "plugins"


def install(page: str, folder: Path) -> dict[str, str]:
    """Lays the page's package into `folder`; returns an environment in which every process sees it."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    code = _block(text, "python")
    module = _match(r"^# (\w+)\.py$", code)
    group = _match(r'^\[project\.entry-points\."([\w.]+)"\]$', _block(text, "toml"))
    point = _match(r'^\[project\.entry-points\."[\w.]+"\]\n([^\n]+)$', _block(text, "toml")).replace('"', "")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    info = folder / f"{module}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{point}\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def _block(text: str, language: str) -> str:
    return _match(rf"```{language}\n(.*?)```", text)


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    assert found, f"the page has no {pattern!r}"
    return found.group(1)
