"""Credit over time: which decisions earned what, signed, summing to their agent's credit."""

from __future__ import annotations

from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View

COMMAND = "potluck-audit credit RUN --envs HOST:PORT --policy HOST:PORT"


def section(view: View) -> Section:
    html = fill_in("sections/credit.html.j2", charts=[], words="", strongest=None, agreement=None, command=COMMAND)
    return Section("decisions", "Credit over time", "Decisions", html)
