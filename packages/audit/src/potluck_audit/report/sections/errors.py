"""First decisive errors of failed episodes: who, when, and what would have been better."""

from __future__ import annotations

from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View

COMMAND = "potluck-audit blame RUN --envs HOST:PORT --policy HOST:PORT"


def section(view: View) -> Section:
    html = fill_in("sections/errors.html.j2", errors=[], summary="", command=COMMAND)
    return Section("errors", "First decisive errors", "Errors", html)
