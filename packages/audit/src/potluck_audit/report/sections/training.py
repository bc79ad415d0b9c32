"""Reward and cooperation side by side over training, so that one can be seen to rise while the other falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from potluck_audit.intervals import Estimate
from potluck_audit.metrics.curves import running_mean
from potluck_audit.metrics.trends import Trend
from potluck_audit.report.charts.curves import Level, Point, Series, curves
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View


class Panel(NamedTuple):
    """A measure of cooperation over training."""

    name: str
    key: str
    title: str
    percent: bool = False


TEAM = (
    Panel("handoffs_per_soup", "", "hand-offs per delivered soup"),
    Panel("soups_together", "chain", "soups that more than one agent made", percent=True),
    Panel("interdependence_share", "constructive", "hand-offs that were constructive", percent=True),
    Panel("option_divergence_time", "", "divergence between the agents' use of time, bits"),
    Panel("equality", "", "equality of consumption"),
    Panel("restraint", "", "restraint beside a last apple", percent=True),
    Panel("patch_survival_area", "", "patches kept alive", percent=True),
    Panel("river_open_share", "", "steps with a river clean enough", percent=True),
)
AGENTS = (
    Panel("soup_share", "chain", "share of the soups' steps", percent=True),
    Panel("consumption_share", "", "share of the apples", percent=True),
    Panel("clean_share", "", "share of the cleaning", percent=True),
    Panel("option_share_time", "wait", "time spent waiting by choice", percent=True),
)


def section(view: View) -> Section:
    html = fill_in(
        "sections/training.html.j2",
        reward=reward_chart(view),
        rounds=len(view.results.curve),
        team=panel_charts(view, TEAM, by_agent=False),
        agents=panel_charts(view, AGENTS, by_agent=True),
        percent=view.percent,
        unit=view.unit,
        windows=len({t.first for t in view.results.trends}),
    )
    return Section("training", "Reward and cooperation over training", "Training", html)


def reward_chart(view: View) -> Markup:
    points = [Point(p.round, p.estimate) for p in view.results.curve]
    if len(points) < 2:
        return Markup()
    means = running_mean([(p.round, p.estimate.value or 0.0) for p in view.results.curve], 10)
    smooth = [Point(number, Estimate(mean, None, None, 0)) for number, mean in means]
    bands = _trend_points([t for t in view.results.trends if t.metric.name == "return"])
    lines = [Series("rounds", 0, points, dots=True)]
    lines.append(Series("trained", 0, bands) if bands else Series("trained", 0, smooth))
    return curves(lines, _levels(view, "return"), said=f"Team return in {view.unit} by training round")


def panel_charts(view: View, panels: Sequence[Panel], *, by_agent: bool) -> list[tuple[Panel, Markup]]:
    found = []
    for panel in panels:
        trends = [t for t in view.results.trends if (t.metric.name, t.metric.key) == (panel.name, panel.key)]
        agents = list(dict.fromkeys(t.metric.agent for t in trends if bool(t.metric.agent) == by_agent))
        seats = {a: n for n, a in enumerate(view.team.agents)} if view.team else {}
        lines = [
            Series(
                agent or "trained", seats.get(agent, 0), _trend_points([t for t in trends if t.metric.agent == agent])
            )
            for agent in agents
        ]
        levels = [] if by_agent else _levels(view, panel.name, panel.key)
        chart = (
            curves(lines, levels, percent=panel.percent, said=f"{panel.title} by training round") if lines else Markup()
        )
        if chart:
            found.append((panel, chart))
    return found


def _trend_points(trends: Sequence[Trend]) -> list[Point]:
    return [Point((t.first + t.last) / 2, t.metric.estimate) for t in trends]


def _levels(view: View, name: str, key: str = "") -> list[Level]:
    found = ((short, view.find(group, name, "", key)) for short, group in view.beside.items())
    return [Level(short, metric.estimate) for short, metric in found if metric is not None]
