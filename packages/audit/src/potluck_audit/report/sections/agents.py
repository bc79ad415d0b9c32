"""A card for every agent, and the division of labour between them."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from potluck_audit.intervals import UNDEFINED
from potluck_audit.report.charts.bars import Bar, bars
from potluck_audit.report.numbers import ABSENT, Table, figure, number, p_value
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import Group, Row, View

MEASURES = (
    Row("idle in all", "idle_share", "all", percent=True),
    Row("waiting by choice", "idle_share", "wait", percent=True),
    Row("blocked", "idle_share", "blocked", percent=True),
    Row("no-op", "idle_share", "noop", percent=True),
    Row("cells walked", "path_length", digits=1),
    Row("cells visited", "distinct_cells", digits=1),
    Row("deliveries", "deliveries"),
    Row("share of deliveries", "delivery_share", percent=True),
    Row("share of soups' steps", "soup_share", "chain", percent=True),
    Row("the same without fetching", "soup_share", "making", percent=True),
    Row("apples eaten", "consumption"),
    Row("share of apples", "consumption_share", percent=True),
    Row("cells cleaned", "cleans"),
    Row("share of cleaning", "clean_share", percent=True),
    Row("restraint", "restraint", percent=True),
    Row("policy diversity, bits", "policy_diversity"),
)
TEAM = (
    Row("divergence by decisions, bits", "option_divergence_decisions", digits=3),
    Row("divergence by time, bits", "option_divergence_time", digits=3),
    Row("the same without waiting", "option_divergence_time", "without_wait", digits=3),
    Row("information by decisions, I/H(option)", "option_information_decisions", "per_option", digits=3),
    Row("information by time, I/H(option)", "option_information_time", "per_option", digits=3),
    Row("role kept between episodes", "role_persistence", "episodes", percent=True),
    Row("roles per episode", "roles_per_episode"),
    Row("policy diversity (same prompts), bits", "policy_diversity", digits=3),
    Row("Gini of deliveries", "deliveries_gini"),
    Row("Gini of soups' steps", "soup_share_gini", "chain"),
    Row("Gini of apples", "consumption_gini"),
    Row("Gini of cleaning", "cleans_gini"),
    Row("deliveries that paid nothing", "deliveries_unpaid"),
)
TESTS = {
    "option_information_decisions": "option_information_decisions",
    "option_information_time": "option_information_time",
    "role_persistence": "role_persistence",
}
"""Measures with a baseline of dealt seats, and the names of their tests."""


def section(view: View) -> Section:
    team = view.team
    cards = [_card(view, team, seat, agent) for seat, agent in enumerate(team.agents)] if team else []
    html = fill_in(
        "sections/agents.html.j2",
        cards=cards,
        together=_together(view) if team else None,
        seeds=_seeds(view),
        asked=view.find(team, "policy_diversity") is not None,
    )
    return Section("agents", "What each agent does", "Agents", html)


def _card(view: View, team: Group, seat: int, agent: str) -> dict[str, Any]:
    return {
        "seat": seat,
        "agent": agent,
        "role": _role(view, team, agent),
        "chart": histogram(view, team, seat, agent),
        "table": view.table(f"{agent}, beside the baselines in the same seat.", MEASURES, agent),
    }


def _role(view: View, team: Group, agent: str) -> str:
    """The role it had in most episodes."""
    shares = [m for m in view.results.all("role_share", team.name, agent=agent) if m.estimate.value]
    if not shares:
        return "no role: it chose nothing"
    first = max(shares, key=lambda m: m.estimate.value or 0.0)
    name = first.key.replace("_", " ").replace("+", " + ")
    return f"{name} in {number(first.estimate.value or 0.0, percent=True)} of episodes"


def histogram(view: View, team: Group, seat: int, agent: str) -> Markup:
    names = [f"option_share_{weighting}" for weighting in ("time", "decisions")]
    options = list(dict.fromkeys(m.key for m in view.results.all(names[0], team.name, agent=agent)))
    groups = {}
    for option in options:
        groups[option] = [
            Bar(
                seat,
                metric.estimate if (metric := view.find(team, name, agent, option)) else UNDEFINED,
                f"{agent}, {option}, {name.removeprefix('option_share_')}",
                view.marks(name, agent, option),
                hollow=name.endswith("decisions"),
            )
            for name in names
        ]
    return bars(groups, percent=True) if groups else Markup()


def _together(view: View) -> Table | None:
    """Team measures with what chance alone gives, and the test against it."""
    rows = []
    for row in TEAM:
        if not any(view.find(group, row.name, "", row.key) for _, group in view.columns):
            continue
        dealt = view.find(view.team, f"{row.name}_baseline", "", row.key)
        test = view.find(view.team, "p_value_holm", "", TESTS.get(row.name, ""))
        own, *others = view.row(row.name, "", row.key, digits=row.digits, percent=row.percent)
        chance = figure(dealt, row.digits, percent=row.percent) if dealt else ABSENT
        rows.append((row.title, own, chance, p_value(test) if dealt else ABSENT, *others))
    first, *beside = (short for short, _ in view.columns)
    header = ("team", first, "seats dealt at random", "p (Holm)", *beside)
    return Table("The agents beside each other.", header, rows) if rows else None


def _seeds(view: View) -> Table | None:
    """Whether teams of other training seeds split the work alike."""
    rows = []
    for key, title in (("matched", "seats matched as well as can be"), ("seats", "seat by seat")):
        metric = view.results.find("role_agreement", "teams", "", key)
        if metric:
            dealt = view.results.find("role_agreement_baseline", "teams", "", key)
            test = view.results.find("p_value_holm", "teams", "", f"role_agreement_{key}")
            own, chance = (figure(m, percent=True) for m in (metric, dealt))
            rows.append((title, str(metric.estimate.episodes), own, chance, p_value(test)))
    header = ("agents with the same role", "teams", "share", "roles dealt at random", "p (Holm)")
    return Table("The same roles in teams of other training seeds.", header, rows) if rows else None
