"""The report's charts as SVG files of their own, in the report's colours.

In the page a chart takes its colours from style-sheet variables, which few programs outside a browser know. Here every
variable is replaced by its value, and the rules that the chart uses go with it, so that a file opens in a paper's
tool chain as it does in a browser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Literal
from xml.etree import ElementTree

from markupsafe import escape

from potluck_audit.intervals import UNDEFINED
from potluck_audit.report.charts import canvas
from potluck_audit.report.charts.bars import Bar, bars
from potluck_audit.report.charts.heat import heat_map
from potluck_audit.report.sections import commons, handoffs, training, worth
from potluck_audit.report.view import View
from potluck_audit.saved import SavedResults, SavedSet

Theme = Literal["light", "dark"]
CHARACTER = 6.2
"""Width of a character, on average."""

_VARIABLE = re.compile(r"(--[a-z0-9]+):\s*([^;}]+)")
_ROOT = re.compile(r":root\s*\{(.*?)\}", re.DOTALL)
_RULE = re.compile(r"svg\.chart[^{}]*\{[^{}]*\}")
_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)" width="[0-9.]+" height="[0-9.]+"')
_USE = re.compile(r"var\((--[a-z0-9]+)\)")
_SPACED = re.compile(r"rgb\((\d+) (\d+) (\d+)\)")


def figures(results: SavedResults, theme: Theme = "light") -> Iterator[tuple[str, str]]:
    """(file name, SVG) of everything that was measured."""
    for name, chart, notes in _charts(results):
        if chart:
            yield f"{name}.svg", standalone(noted(chart, notes) if notes else chart, theme)


Note = tuple[str, str]
"""A colour (or nothing) and what it stands for."""


def _charts(results: SavedResults) -> Iterator[tuple[str, str, Sequence[Note]]]:
    view = View(results)
    said = f"{results.unit} per episode, {view.percent} intervals; dots are single rounds"
    yield "learning-curve", training.reward_chart(view), [("", said)]
    for panels, by_agent in ((training.TEAM, False), (training.AGENTS, True)):
        for panel, chart in training.panel_charts(view, panels, by_agent=by_agent):
            yield f"training-{slug(panel.name)}", chart, [("", f"{panel.title}, {view.percent} intervals")]
    for group in results.sets:
        seats = [(canvas.fill(seat), agent) for seat, agent in enumerate(group.agents)]
        for weighting in ("decisions", "time"):
            yield f"options-by-{weighting}-{slug(group.name)}", _options(results, group, weighting), seats
        yield from _visits(results, group)
        alone = handoffs.flow_chart(View(replace(results, sets=[group])))
        yield f"handoffs-{slug(group.name)}", alone, [("", "hand-offs per episode")]
    yield "patches-alive", commons.by_step(view, "patches_alive", "patches alive"), [("", "patches with an apple")]
    yield "dirt", commons.by_step(view, "dirt_fraction", "dirt", percent=True), [("", "river cells that are dirty")]
    yield "coalitions", worth.coalition_chart(view, list(results.all("coalition"))), [("", f"v(S) in {results.unit}")]
    yield "credit", worth.credit_chart(view, list(results.all("credit"))), [("", f"Shapley credit in {results.unit}")]
    yield "interactions", worth.interaction_chart(view), [("", "Shapley interaction index of pairs")]


def _visits(results: SavedResults, group: SavedSet) -> Iterator[tuple[str, str, Sequence[Note]]]:
    visits = results.visits.get(group.name, {})
    everywhere = [cell for cells in visits.values() for cell in cells]
    for agent, cells in visits.items():
        if cells:
            width, height = (1 + max(cell[axis] for cell in everywhere) for axis in (0, 1))
            name = f"visits-{slug(group.name)}-{slug(agent)}"
            yield name, heat_map(cells, [], width, height), [("", f"{agent}: % of its steps")]


def _options(results: SavedResults, group: SavedSet, weighting: str) -> str:
    name = f"option_share_{weighting}"
    found = {(m.agent, m.key): m.estimate for m in results.all(name, group.name)}
    groups = {
        option: [
            Bar(seat, found.get((agent, option), UNDEFINED), f"{agent}, {option}")
            for seat, agent in enumerate(group.agents)
        ]
        for option in dict.fromkeys(key for _, key in found)
    }
    return bars(groups, percent=True) if groups else ""


def noted(chart: str, notes: Sequence[tuple[str, str]]) -> str:
    """The chart with a line below that the page says beside it: (colour or empty, text) in turn."""
    width, height = (float(number) for number in _BOX.search(chart).groups())  # type: ignore[union-attr]
    wide = max(width, 8 + sum(22 + CHARACTER * len(text) for _, text in notes))
    size = f'viewBox="0 0 {wide:g} {height + 24:g}" width="{wide:g}" height="{height + 24:g}"'
    parts, x = [], 6.0
    for colour, text in notes:
        if colour:
            parts.append(f'<rect x="{x:.1f}" y="{height + 7:.1f}" width="10" height="10" fill="{colour}"/>')
            x += 15
        parts.append(f'<text class="lab" x="{x:.1f}" y="{height + 16:.1f}">{escape(text)}</text>')
        x += 16 + CHARACTER * len(text)
    return _BOX.sub(size, str(chart), count=1).removesuffix("</svg>") + "".join(parts) + "</svg>"


def standalone(chart: str, theme: Theme = "light") -> str:
    """The chart as a file: name space, rules and colours within, and a ground to stand on."""
    chart = str(chart)  # Markup would escape what is put into it
    css = (files("potluck_audit.report") / "assets" / "page.css").read_text(encoding="utf-8")
    values = palette(css, theme)
    style = "\n".join(rule.replace("svg.chart", ".chart") for rule in _RULE.findall(css))
    ground = '<rect width="100%" height="100%" fill="var(--paper)"/>'
    ground = f"{canvas.patterns()}{ground}" if "url(#" in chart else ground
    opening = chart.index(">") + 1
    head = chart[:opening].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    whole = f"{head}<style>{style}</style>{ground}{chart[opening:]}\n"
    text = _SPACED.sub(r"rgb(\1,\2,\3)", _USE.sub(lambda use: values[use[1]], whole))
    ElementTree.fromstring(text)
    return text


def palette(css: str, theme: Theme) -> dict[str, str]:
    """The page's colours; the dark ones stand over the light ones."""
    light, dark = (dict(_VARIABLE.findall(block)) for block in _ROOT.findall(css)[:2])
    return {name: value.strip() for name, value in (light | (dark if theme == "dark" else {})).items()}


def slug(name: str) -> str:
    """eval/solo/agent_0 -> solo-agent_0; safe as a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name.removeprefix("eval/")).strip("-") or "unnamed"
