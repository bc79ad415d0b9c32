"""Finds a judge by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import cast

from potluck_audit.blame.judges.base import Bench, DecisionJudge
from potluck_audit.blame.judges.counterfactual import Counterfactual
from potluck_audit.blame.judges.greedy import Greedy
from potluck_audit.blame.judges.prompted import Prompted
from potluck_audit.errors import InvalidRequest

GROUP = "potluck.judges"

Maker = Callable[[Bench], DecisionJudge]

BUILT_IN: dict[str, Maker] = {"counterfactual": Counterfactual, "greedy": Greedy, "prompted": Prompted}


def known() -> dict[str, Maker | None]:
    """Names of all judges; those of other packages are loaded when they are made."""
    return {**{point.name: None for point in entry_points(group=GROUP)}, **BUILT_IN}


def judge(name: str, bench: Bench) -> DecisionJudge:
    """Raises InvalidRequest where there is no such judge, or where it lacks what it needs."""
    if name in BUILT_IN:
        return BUILT_IN[name](bench)
    for point in entry_points(group=GROUP):
        if point.name == name:
            return cast(Maker, point.load())(bench)
    cure = f"use one of {', '.join(sorted(known()))}, or install the package that has it"
    raise InvalidRequest("judges", f"there is no judge {name!r}", cure)
