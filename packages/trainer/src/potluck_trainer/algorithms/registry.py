"""Finds an estimator by name."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from potluck_trainer.algorithms.base import Estimator, needs_coalitions
from potluck_trainer.config import AlgorithmConfig
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


def chosen(config: AlgorithmConfig) -> Estimator:
    """The estimator of a run. Raises ConfigError where it is unknown or could never make an update."""
    estimator = load(config.name)
    if needs_coalitions(estimator) and config.baseline == "frozen":
        raise ConfigError(
            f'algorithm.baseline "frozen" gives {config.name} nothing to learn from: adapters begin as the frozen '
            "base, so all coalitions of the first round play alike, every credit is 0, and so is every round's after "
            'it; use "uniform"'
        )
    return estimator
