"""Figures 2 and 3: patch survival in Harvest, roles and heat maps in Cleanup."""

from __future__ import annotations

from math import fsum

from potluck_audit.paper import published
from potluck_audit.paper.readings import Part, Reading, number, said
from potluck_audit.saved import SavedResults, SavedSet
from potluck_audit.tables.grid import Cell, Grid, Number

DASH = "\N{EN DASH}"


def orchard(results: SavedResults, team: SavedSet, charts: dict[str, str]) -> Part:
    """Survival of patches where there is no river (figure 2), who eats and cleans where there is (3), and where."""
    river = results.find("cleans", team.name, team.agents[0]) is not None
    shown = "dirt.svg" if river else "patches-alive.svg"
    drawn = [name for name in charts if name == shown or name.startswith("visits-trained")]
    tables = [_roles(results, team)] if river else [_survival(results, team), _roles(results, team)]
    return Part(
        f"Melting Pot, {team.game.rpartition('/')[2]}",
        [table for table in tables if table.rows],
        [(name, charts[name]) for name in drawn],
        [reading for reading in (_specialised(results, team) if river else _sustained(results, team),) if reading],
    )


def _survival(results: SavedResults, team: SavedSet) -> Grid:
    rows: list[list[Cell]] = []
    steps = sorted(int(m.key) for m in results.all("patches_alive", team.name))
    for step in steps:
        found = [
            results.find("patches_alive", name, "", str(step)) for name in (team.name, "eval/frozen", "eval/uniform")
        ]
        printed = [f"{x[step]:g}" if step in x else DASH for x in (published.HARVEST_TUNED, published.HARVEST_BASE)]
        rows.append([str(step), *printed, *(Number(m.estimate if m else None) for m in found)])
    header = ["step", "paper, trained", "paper, base in menus", "ours, trained", "ours, frozen", "ours, uniform"]
    return Grid("patches", "Patches that hold an apple (figure 2).", header, rows)


def _roles(results: SavedResults, team: SavedSet) -> Grid:
    measures = (("consumption", "apples"), ("cleans", "cells cleaned"), ("path_length", "cells walked"))
    rows: list[list[Cell]] = [
        [
            agent,
            _role(results, team, agent),
            *(Number(m.estimate if (m := results.find(name, team.name, agent)) else None) for name, _ in measures),
        ]
        for agent in team.agents
        if results.find("consumption", team.name, agent)
    ]
    return Grid(
        "roles",
        "Who eats and who cleans (figure 3 for Cleanup).",
        ["agent", "role", *(title for _, title in measures)],
        rows,
    )


def _role(results: SavedResults, team: SavedSet, agent: str) -> str:
    shares = [m for m in results.all("role_share", team.name, agent=agent) if m.estimate.value]
    best = max(shares, key=lambda m: m.estimate.value or 0.0, default=None)
    return f"{best.key} ({number(best.estimate.value or 0.0, True)} of episodes)" if best else "none"


def _sustained(results: SavedResults, team: SavedSet) -> Reading | None:
    if results.find("patch_survival_area", team.name) is None:
        return None
    areas = [(s, results.find("patch_survival_area", f"eval/{s}")) for s in ("frozen", "uniform")]
    beside = ", ".join(f"{short} {said(metric, percent=True)}" for short, metric in areas)
    gain = results.find("return_gain", team.name, key="eval/frozen")
    found = (
        f"Patch-steps alive: {said(results.find('patch_survival_area', team.name), percent=True)} ({beside}). "
        f"Restraint beside a last apple: {said(results.find('restraint', team.name), percent=True)}. Trained minus "
        f"frozen, paired by seed: {said(gain)} {team.unit}."
    )
    weaker = (
        "In the paper most of the gain over raw actions is the interface: the frozen base in the same menus eats 76.6 "
        "apples, the trained team 95.7, and the intervals of its ablations overlap. Frozen in the menus must stand "
        "beside trained. And a patch that is left alone need not be spared: restraint looks at decisions."
    )
    return Reading("Figure 2: patches outlive those of the base in the same menus.", found, weaker)


def _specialised(results: SavedResults, team: SavedSet) -> Reading | None:
    eaten = [m for agent in team.agents if (m := results.find("consumption", team.name, agent))]
    if not eaten:
        return None
    total = fsum(m.estimate.value or 0.0 for m in eaten)
    earned = results.find("return", team.name)
    kept = results.find("role_persistence", team.name, "", "episodes")
    chance = results.find("role_persistence_baseline", team.name, "", "episodes")
    found = (
        f"The agents eat {number(total)} apples together; the same episodes' return is {said(earned)}. A role is kept "
        f"between episodes in {said(kept, percent=True)} (seats dealt at random: {said(chance, percent=True)}). "
        f"Equality of consumption: {said(results.find('equality', team.name))}."
    )
    weaker = (
        f"Together that is 171 apples and more, while the team of the paper's table eats {published.CLEANUP_TEAM}: the "
        "two are not of the same episodes, and roles were looked at in one seed. Here every figure names its episode "
        "set, and roles are tested for persistence against dealt seats and, with --seeds, across training seeds."
    )
    return Reading(f"Figure 3: {published.CLEANUP_ROLES}.", found, weaker)
