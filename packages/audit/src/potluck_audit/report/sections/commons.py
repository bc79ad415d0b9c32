"""Commons: how long patches live, how dirty the river is, who eats and who cleans."""

from __future__ import annotations

from markupsafe import Markup

from potluck_audit.report.charts.bars import Bar, bars
from potluck_audit.report.charts.curves import Point, Series, curves
from potluck_audit.report.numbers import Table, figure
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import Row, View

OUTCOMES = (
    Row("efficiency, apples per step", "efficiency", digits=3),
    Row("equality of consumption", "equality"),
    Row("sustainability, mean step of meals", "sustainability", digits=1),
    Row("peace, agents in play", "peace"),
    Row("least agent's apples", "max_min"),
    Row("patches kept alive", "patch_survival_area", percent=True),
    Row("apples per patch and step", "apples_per_patch_step", digits=4),
    Row("restraint beside a last apple", "restraint", percent=True),
    Row("river cells that are dirty", "dirt_fraction", percent=True),
    Row("steps with a river clean enough", "river_open_share", percent=True),
    Row("apples per cell cleaned", "apples_per_clean"),
)


def section(view: View) -> Section | None:
    """None for games that are no commons."""
    table = view.table("Social outcomes, from individual consumption.", OUTCOMES)
    if table is None:
        return None
    html = fill_in(
        "sections/commons.html.j2",
        outcomes=table,
        patches=by_step(view, "patches_alive", "patches with an apple"),
        dirt=by_step(view, "dirt_fraction", "river cells that are dirty", percent=True),
        deaths=_deaths(view),
        eaters=by_agent(view, "consumption"),
        cleaners=by_agent(view, "cleans"),
        percent=view.percent,
    )
    return Section("commons", "The commons", "Commons", html)


def by_step(view: View, name: str, words: str, *, percent: bool = False) -> Markup:
    """One line a team, of the figures that are keyed by step."""
    lines = []
    for seat, (short, group) in enumerate(view.columns):
        if group is None:
            continue
        steps = [(int(m.key), m.estimate) for m in view.results.all(name, group.name) if m.key.isdigit()]
        if steps:
            lines.append(Series(short, seat, [Point(*step) for step in sorted(steps)]))
    return curves(lines, across="step", percent=percent, said=f"{words} by step")


def _deaths(view: View) -> Table | None:
    if view.team is None:
        return None
    keys = [m.key for m in view.results.all("patch_death", view.team.name)]
    rows = [
        (
            f"death {key}",
            *(
                cell
                for _, group in view.columns
                for cell in (
                    figure(view.find(group, "patch_death", "", key), 1),
                    figure(view.find(group, "patch_death_share", "", key), percent=True),
                )
            ),
        )
        for key in keys
    ]
    header = ("", *(f"{short}, {what}" for short, _ in view.columns for what in ("step", "episodes")))
    text = "Mean step of the k-th patch death, and the share of episodes that came to it."
    return Table(text, header, rows) if rows else None


def by_agent(view: View, name: str) -> Markup:
    if view.team is None:
        return Markup()
    groups = {
        agent: [Bar(seat, metric.estimate, agent, view.marks(name, agent))]
        for seat, agent in enumerate(view.team.agents)
        if (metric := view.find(view.team, name, agent))
    }
    return bars(groups, label_width=76) if groups else Markup()
