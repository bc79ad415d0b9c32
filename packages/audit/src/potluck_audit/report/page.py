"""Renders audit results and replays into one HTML file that opens anywhere and asks for nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from potluck_audit.report.charts import canvas
from potluck_audit.report.replay_data import ReplayedEpisode
from potluck_audit.report.sections import (
    agents,
    commons,
    credit,
    errors,
    handoffs,
    methods,
    replay,
    teams,
    training,
    verdict,
    visits,
    worth,
)
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import asset, embedded, fill_in
from potluck_audit.report.view import View
from potluck_audit.results import AuditResults, write_file

ORDER: Sequence[Callable[[View], Section | None]] = (
    verdict.section,
    teams.section,
    training.section,
    agents.section,
    handoffs.section,
    visits.section,
    commons.section,
    worth.section,
    credit.section,
    errors.section,
    replay.section,
    methods.section,
)
"""Verdict first; how it was made last."""


def write_report(results: AuditResults, replayed: Sequence[ReplayedEpisode], run: Path) -> Path:
    return write_file(run / "report.html", render(results, replayed))


def render(results: AuditResults, replayed: Sequence[ReplayedEpisode]) -> str:
    view = View(results, replayed)
    sections = [found for build in ORDER if (found := build(view)) is not None]
    facts = (results.facts.get(name) for name in ("Game", "Horizon", "Backbone"))
    page = fill_in(
        "page.html.j2",
        run=results.run,
        subject=" · ".join(fact for fact in facts if fact) or "Does the team cooperate, and who brought what?",
        sections=sections,
        css=Markup(asset("page.css")),
        script=Markup(asset("replay.js")),
        patterns=canvas.patterns(),
        numbers=embedded(results.to_json()),
    )
    return str(page)
