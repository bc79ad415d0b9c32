"""Numbers as a reader sees them: value with interval, "undefined" where there is none, tables as rows of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from potluck_audit.metrics.metric import Metric
from potluck_audit.results import AuditResults

MINUS = "\N{MINUS SIGN}"
UNDEFINED = Markup('<span class="und">undefined</span>')
ABSENT = Markup('<span class="und">\N{EN DASH}</span>')
SYNERGY = f"v(N) {MINUS} Σ v(i)"


class Table(NamedTuple):
    """Header and rows; all columns after the first `labels` ones are numbers."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Markup]]
    labels: int = 1


def figure(metric: Metric | None, digits: int = 2, *, percent: bool = False) -> Markup:
    """Mean [low, high]."""
    if metric is None:
        return ABSENT
    value, low, high, _ = metric.estimate
    if value is None:
        return UNDEFINED
    shown = Markup(escape(number(value, digits, percent)))
    if low is None or high is None:
        return shown
    return shown + Markup(' <span class="ci">{}</span>').format(interval(low, high, digits, percent=percent))


def interval(low: float, high: float, digits: int = 2, *, percent: bool = False) -> str:
    return f"[{number(low, digits, percent, unit=False)}, {number(high, digits, percent, unit=False)}]"


def number(value: float, digits: int = 2, percent: bool = False, *, unit: bool = True) -> str:
    if percent:
        return f"{100 * value:.1f}{' %' if unit else ''}"
    return f"{value:.{digits}f}".replace("-", MINUS)


def set_label(name: str) -> str:
    """eval/solo/agent_0 -> solo agent_0."""
    return name.removeprefix("eval/").replace("/", " ")


def returns_table(results: AuditResults) -> Table:
    rows = []
    for group in results.sets:
        metric = results.find("return", group.name)
        gain = results.find("return_gain", "eval/trained", key=group.name)
        rows.append(
            (
                set_label(group.name),
                str(metric.estimate.episodes if metric else 0),
                figure(metric),
                figure(results.find("return", group.name, key="t")),
                figure(results.find("deliveries_gini", group.name)),
                figure(gain),
            )
        )
    recorded = {group.name for group in results.sets}
    for metric in results.all("solo"):
        if f"eval/solo/{metric.agent}" in recorded:
            continue
        label = f"solo {metric.agent} (others {metric.key})"
        rows.append((label, str(metric.estimate.episodes), figure(metric), ABSENT, ABSENT, ABSENT))
    unit = results.unit
    percent = f"{100 * results.confidence:g} %"
    header = (
        "episodes",
        "n",
        f"{unit} [{percent} bootstrap]",
        f"[{percent} t]",
        "Gini of deliveries",
        "trained minus it",
    )
    return Table(f"Team return, undiscounted, in {unit} per episode.", header, rows)


def handoff_table(results: AuditResults, names: Sequence[str]) -> Table:
    rows = [
        (
            set_label(name),
            *(figure(results.find("handoffs", name, key=kind)) for kind in ("counter", "pot", "soup")),
            figure(results.find("handoffs_per_soup", name)),
            figure(results.find("handoffs_in_soups", name), percent=True),
        )
        for name in names
    ]
    header = (
        "episodes", "over a counter", "through a pot", "plated soup", "per delivered soup", "share that reached a soup",
    )  # fmt: skip
    return Table("Objects that changed hands, per episode.", header, rows)


def deliveries_table(results: AuditResults, names: Sequence[str]) -> Table:
    rows = [
        (
            set_label(name),
            agent,
            figure(results.find("deliveries", name, agent)),
            figure(results.find("delivery_share", name, agent), percent=True),
        )
        for name in names
        for agent in _agents(results, name)
    ]
    header = ("episodes", "agent", f"{results.unit} per episode", "share of the team's")
    return Table("Rewarded deliveries by agent.", header, rows, labels=2)


def idle_table(results: AuditResults, names: Sequence[str]) -> Table:
    kinds = {"wait": "waiting", "blocked": "blocked", "noop": "no-op", "all": "idle in all"}
    rows = [
        (
            set_label(name),
            agent,
            *(figure(results.find("idle_share", name, agent, key), percent=True) for key in kinds),
        )
        for name in names
        for agent in _agents(results, name)
    ]
    return Table("Shares of environment steps.", ("episodes", "agent", *kinds.values()), rows, labels=2)


def _agents(results: AuditResults, name: str) -> tuple[str, ...]:
    return next(s.agents for s in results.sets if s.name == name)


def plated_table(results: AuditResults, name: str) -> Table:
    agents = _agents(results, name)
    rows = [
        (giver, *(figure(results.find("plated_delivered", name, giver, taker), percent=True) for taker in agents))
        for giver in agents
    ]
    return Table("Share of soups by who plated (rows) and who delivered (columns).", ("plated by", *agents), rows)


def cooperation_table(results: AuditResults) -> Table | None:
    """Value of coalitions (solo values among them), synergy, necessity and credit."""
    rows: list[tuple[str, str, Markup]] = []
    for metric in results.all("coalition"):
        members = metric.key or "nobody"
        rows.append((f"v({members})", str(metric.estimate.episodes), figure(metric)))
    for title, name in (("necessity", "necessity"), ("Shapley credit", "credit")):
        for metric in results.all(name):
            rows.append((f"{title} of {metric.agent}", str(metric.estimate.episodes), figure(metric)))
    if synergy := next(results.all("synergy"), None):
        rows.append((f"synergy {SYNERGY}", str(synergy.estimate.episodes), figure(synergy)))
    if not rows:
        return None
    unit = results.unit
    return Table("What the team is worth beside its members.", ("quantity", "n", unit), rows)
