"""Heat maps: where each agent spends its steps, in the team and in the baselines."""

from __future__ import annotations

from typing import Any

from potluck_audit.report.charts.heat import heat_map
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import Group, View


def section(view: View) -> Section:
    visits = view.results.visits
    shown = [(short, group) for short, group in view.columns if group and any(visits.get(group.name, {}).values())]
    maps = [_maps(view, short, group) for short, group in shown]
    return Section("visits", "Where the agents are", "Visits", fill_in("sections/visits.html.j2", maps=maps))


def _maps(view: View, short: str, group: Group) -> dict[str, Any]:
    visits = view.results.visits[group.name]
    scene = next((r.replay.scene for r in view.replayed if r.episode.game == group.game), None)
    cells = [cell for agent in visits.values() for cell in agent]
    width = scene.width if scene else max(x for x, _ in cells) + 1
    height = scene.height if scene else max(y for _, y in cells) + 1
    tiles = list(scene.tiles) if scene else []
    drawn = [
        {"seat": seat, "agent": agent, "chart": heat_map(visits.get(agent, {}), tiles, width, height)}
        for seat, agent in enumerate(group.agents)
    ]
    return {"short": short, "episodes": view.count(group), "maps": drawn}
