"""Finds an estimator by name."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from potluck_trainer.algorithms.base import Estimator
from potluck_trainer.errors import ConfigError

GROUP = "potluck.algorithms"


def load(name: str) -> Estimator:
    """The estimator that the entry point `name` names."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise ConfigError(
            f'there is no algorithm "{name}"; known: {", ".join(sorted(found))}. '
            f"A package adds one with an entry point of the group {GROUP}"
        )
    return cast(Estimator, found[name].load())
