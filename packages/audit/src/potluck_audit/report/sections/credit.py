"""Credit over time: which decisions earned what, signed, summing to their agent's credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from potluck_audit.intervals import Intervals
from potluck_audit.report.charts.curves import Point, Series, curves
from potluck_audit.report.numbers import MINUS, Cell, Table, interval, number
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View

COMMAND = "potluck-audit blame RUN --judges counterfactual --envs HOST:PORT --policy HOST:PORT"
POINTS = 24
"""Of a curve."""
STRONGEST = 8
"""Decisions that are listed at either end."""

Json = Mapping[str, Any]


def section(view: View) -> Section:
    shares: Sequence[Json] = [s for s in view.blame["shares"] if s["share"] is not None] if view.blame else []
    judges = list(dict.fromkeys(s["judge"] for s in shares))
    html = fill_in(
        "sections/credit.html.j2",
        charts=[(judge, _curves(view, [s for s in shares if s["judge"] == judge])) for judge in judges],
        episodes=len({s["episode_id"] for s in shares}),
        strongest=_strongest(view, [s for s in shares if s["judge"] == judges[0]]) if judges else None,
        agreement=_agreement(view.blame["agreement"]) if view.blame and view.blame["agreement"] else None,
        unit=view.unit,
        percent=view.percent,
        command=COMMAND,
    )
    return Section("decisions", "Credit over time", "Decisions", html)


def _curves(view: View, shares: Sequence[Json]) -> Markup:
    """Each agent's credit so far, mean over episodes; an agent's line ends at its credit in these episodes."""
    episodes = list(dict.fromkeys(s["episode_id"] for s in shares))
    last = max(s["step"] for s in shares) + 1
    steps = sorted({round(last * i / POINTS) for i in range(POINTS + 1)})
    intervals = Intervals(view.results.confidence, resamples=1_000)
    lines = []
    for agent in sorted({s["agent"] for s in shares}, key=view.seat):
        paths = [_path([s for s in shares if (s["agent"], s["episode_id"]) == (agent, e)], steps) for e in episodes]
        points = [Point(step, intervals.mean([path[at] for path in paths])) for at, step in enumerate(steps)]
        lines.append(Series(agent, max(view.seat(agent), 0), points))
    return curves(lines, across="step", said="Credit of decisions so far, by agent and step")


def _path(shares: Sequence[Json], steps: Sequence[int]) -> list[float]:
    """Credit of the decisions before each step."""
    added = [sum(s["share"] for s in shares if a <= s["step"] < b) for a, b in zip([0, *steps], steps, strict=False)]
    return list(accumulate(added))


def _strongest(view: View, shares: Sequence[Json]) -> Table:
    """The decisions with the most credit and with the least."""
    ranked = sorted(shares, key=lambda s: -s["share"])
    chosen = ranked if len(ranked) <= 2 * STRONGEST else [*ranked[:STRONGEST], *ranked[-STRONGEST:]]
    shown = {r.episode.episode_id for r in view.replayed}
    rows: list[Sequence[Cell]] = []
    for s in chosen:
        button = Markup('<button type="button" class="jump" data-episode="{}" data-step="{}">show</button>')
        jump = button.format(s["episode_id"], s["step"]) if s["episode_id"] in shown else Markup("not replayed here")
        said = f"{s['option'].replace('_', ' ')} {s['target']}".strip()
        rows.append((said, s["agent"], s["episode_id"], str(s["step"]), _signed(s["share"]), jump))
    header = ("decision", "agent", "episode", "step", f"credit, {view.unit}", "replay")
    return Table(f"Decisions with the most and the least credit, by {chosen[0]['judge']}.", header, rows, labels=3)


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else MINUS}{abs(value):.3f}"


def _agreement(found: Sequence[Json]) -> Table:
    rows = [
        (
            f"{a['first']} and {a['second']}",
            a["measure"].replace("_", " "),
            str(a["decisions"]),
            str(a["episodes"]),
            "undefined" if a["value"] is None else number(a["value"]) + _between(a),
        )
        for a in found
    ]
    return Table("Agreement of judges.", ("judges", "measure", "decisions", "episodes", "value"), rows, labels=2)


def _between(a: Json) -> str:
    return " (no interval)" if a["low"] is None or a["high"] is None else f" {interval(a['low'], a['high'])}"
