"""The replay scrubber."""

from __future__ import annotations

from potluck_audit.report.replay_data import Credits, replay_data
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import embedded, fill_in
from potluck_audit.report.view import View


def section(view: View) -> Section:
    data = embedded(replay_data(view.replayed, _credits(view))) if view.replayed else None
    html = fill_in("sections/replay.html.j2", replay=data, evaluated=view.team is not None)
    return Section("replay", "Replay", "Replay", html)


def _credits(view: View) -> Credits:
    """Of decisions, by the first judge."""
    shares = [s for s in view.blame["shares"] if s["share"] is not None] if view.blame else []
    judge = shares[0]["judge"] if shares else ""
    return {(s["episode_id"], s["agent"], s["decision"]): s["share"] for s in shares if s["judge"] == judge}
