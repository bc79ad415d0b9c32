"""The replay scrubber."""

from __future__ import annotations

from potluck_audit.report.replay_data import replay_data
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import embedded, fill_in
from potluck_audit.report.view import View


def section(view: View) -> Section:
    data = embedded(replay_data(view.replayed)) if view.replayed else None
    html = fill_in("sections/replay.html.j2", replay=data, evaluated=view.team is not None)
    return Section("replay", "Replay", "Replay", html)
