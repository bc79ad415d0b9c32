"""Renders audit results and replays into one HTML file that opens anywhere and asks for nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from potluck_audit.intervals import UNDEFINED
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.report import svg, tables
from potluck_audit.report.replay_data import ReplayedEpisode, replay_data
from potluck_audit.results import AuditResults, write_file

TRAINED, FROZEN, TRAIN = "eval/trained", "eval/frozen", "train"
_ASSETS = files("potluck_audit.report") / "assets"


def write_report(results: AuditResults, replayed: Sequence[ReplayedEpisode], run: Path) -> Path:
    return write_file(run / "report.html", render(results, replayed))


def render(results: AuditResults, replayed: Sequence[ReplayedEpisode]) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.globals.update(colour=svg.colour, label=tables.set_label)
    template = environment.from_string(_asset("page.html.j2"))
    shown = _shown_sets(results)
    return template.render(
        results=results,
        css=Markup(_asset("page.css")),
        script=Markup(_asset("replay.js")),
        numbers=embedded(results.to_json()),
        evaluated=bool(results.sets),
        replay=embedded(replay_data(replayed)) if replayed else None,
        cards=_cards(results),
        curve=svg.learning_curve(results.curve, results.unit) if len(results.curve) > 1 else None,
        returns=tables.returns_table(results),
        behaviour=[_behaviour(results, s) for s in shown],
        deliveries=tables.deliveries_table(results, [s.name for s in shown]),
        idle=tables.idle_table(results, [s.name for s in shown]),
        handoffs=tables.handoff_table(results, [s.name for s in shown]),
        plated=tables.plated_table(results, shown[0].name) if shown else None,
        cooperation=tables.cooperation_table(results),
        heat=[_heat(results, s, replayed) for s in shown if any(results.visits.get(s.name, {}).values())],
        percent=f"{100 * results.confidence:g} %",
    )


def embedded(data: Any) -> Markup:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _shown_sets(results: AuditResults) -> list[EpisodeSet]:
    """The trained team first, then the frozen one; without them whatever was evaluated."""
    by_name = {s.name: s for s in results.sets}
    chosen = [by_name[name] for name in (TRAINED, FROZEN) if name in by_name]
    return chosen or [s for s in results.sets if s.name != TRAIN and not s.name.startswith("eval/solo")][:2]


def _cards(results: AuditResults) -> list[tuple[str, str]]:
    unit = results.unit
    wanted = [
        (results.find("return", TRAINED), f"{unit} per episode, trained team"),
        (results.find("return", FROZEN), f"{unit} per episode, frozen team"),
        (results.find("return_gain", TRAINED, key=FROZEN), "trained minus frozen, paired by seed"),
        (results.find("handoffs_per_soup", TRAINED), "hand-offs per delivered soup"),
        (results.find("option_divergence_time", TRAINED), "bits between the agents' use of time"),
        (next(results.all("synergy"), None), f"{unit} of synergy, {tables.SYNERGY}"),
    ]
    cards = []
    for metric, text in wanted:
        value, low, high, _ = metric.estimate if metric else UNDEFINED
        if value is None:
            continue
        between = f" {tables.interval(low, high)}" if low is not None and high is not None else ""
        cards.append((tables.number(value), text + between))
    return cards


def _behaviour(results: AuditResults, group: EpisodeSet) -> dict[str, Any]:
    """Option histograms of one set, both weightings, with the divergence between agents."""
    panels = []
    for weighting, title in (("decisions", "Share of decisions"), ("time", "Share of environment time")):
        name = f"option_share_{weighting}"
        options = dict.fromkeys(m.key for m in results.all(name, group.name))
        found = {(m.agent, m.key): m.estimate for m in results.all(name, group.name)}
        groups = {
            option: [
                svg.Bar(seat, found.get((agent, option), UNDEFINED), f"{agent}, {option}")
                for seat, agent in enumerate(group.agents)
            ]
            for option in options
        }
        divergence = tables.figure(results.find(f"option_divergence_{weighting}", group.name), 3)
        panels.append({"title": title, "chart": svg.bars(groups, percent=True) if groups else None, "js": divergence})
    return {"set": group, "panels": panels}


def _heat(results: AuditResults, group: EpisodeSet, replayed: Sequence[ReplayedEpisode]) -> dict[str, Any]:
    visits = results.visits[group.name]
    scene = replayed[0].replay.scene if replayed else None
    cells = [cell for agent in visits.values() for cell in agent]
    width = scene.width if scene else max(x for x, _ in cells) + 1
    height = scene.height if scene else max(y for _, y in cells) + 1
    tiles = list(scene.tiles) if scene else []
    return {"set": group, "maps": [(a, svg.heat_map(visits[a], tiles, width, height)) for a in visits]}
