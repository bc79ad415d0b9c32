"""Returns of every team, and whether the trained one earns more, seed by seed."""

from __future__ import annotations

from markupsafe import Markup

from potluck_audit.metrics.metric import Metric
from potluck_audit.report.numbers import ABSENT, MINUS, Table, figure, p_value, set_label
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View


def section(view: View) -> Section:
    html = fill_in("sections/teams.html.j2", returns=returns_table(view), percent=view.percent, lacking=view.lacking)
    return Section("returns", "What every team earns", "Returns", html)


def returns_table(view: View) -> Table:
    results, main = view.results, view.team.name if view.team else ""
    rows: list[tuple[str | Markup, ...]] = []
    for group in results.sets:
        metric = results.find("return", group.name)
        gain = results.find("return_gain", main, key=group.name)
        tested = results.find("p_value_holm", main, key=f"return_gain {group.name}")
        rows.append(
            (
                set_label(group.name),
                str(metric.estimate.episodes if metric else 0),
                figure(metric),
                figure(results.find("return", group.name, key="t")),
                figure(gain),
                p_value(tested) if gain else ABSENT,
            )
        )
    rows += [_played(metric) for metric in results.all("solo") if f"eval/solo/{metric.agent}" not in _names(view)]
    header = (
        "team", "episodes", f"{view.unit} (bootstrap)", "(Student's t)", f"{view.team_label} {MINUS} it", "p (Holm)",
    )  # fmt: skip
    return Table(f"Team return, undiscounted, in {view.unit} per episode.", header, rows)


def _names(view: View) -> set[str]:
    return {s.name for s in view.results.sets}


def _played(metric: Metric) -> tuple[str | Markup, ...]:
    label = f"solo {metric.agent} (others {metric.key})"
    return (label, str(metric.estimate.episodes), figure(metric), ABSENT, ABSENT, ABSENT)
