"""How the numbers were made, and what a reader must know before comparing them with others."""

from __future__ import annotations

from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View


def section(view: View) -> Section:
    html = fill_in("sections/methods.html.j2", facts=view.results.facts, percent=view.percent)
    return Section("methods", "Methods", "Methods", html)
