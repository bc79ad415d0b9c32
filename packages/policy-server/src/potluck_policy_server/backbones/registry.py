"""Backbones by name: entry points of the group `potluck.backbones`, then folders and hub ids of causal language models.

What stands behind a colon is the entry point's own affair: `openai:gpt-5`, `vllm:Qwen/Qwen3-4B-Instruct-2507`.
An entry point is a function `load(options: BackboneOptions) -> Backbone`; a user's own package declares one.
"""

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from potluck_policy_server.backbones.base import Backbone, BackboneOptions
from potluck_policy_server.errors import UnknownBackbone

GROUP = "potluck.backbones"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def known() -> list[str]:
    """Names of the backbones that are installed."""
    return sorted(point.name for point in entry_points(group=GROUP))


def load(options: BackboneOptions) -> Backbone:
    """Loads a backbone by name, or raises UnknownBackbone with the names that exist."""
    points: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
    if point := points.get(options.name) or points.get(options.name.partition(":")[0]):
        loader: Callable[[BackboneOptions], Backbone] = point.load()
        return loader(options)
    folder = Path(options.name).expanduser()
    if folder.is_dir() or folder.suffix == ".gguf" or _HUB_ID.fullmatch(options.name):
        from potluck_policy_server.backbones import causal_lm

        return causal_lm.load(options)
    raise UnknownBackbone(options.name, points)
