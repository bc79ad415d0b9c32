"""What coalitions are worth, and each agent's exact Shapley credit, with negative credit drawn as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from markupsafe import Markup

from potluck_audit.metrics.metric import Metric
from potluck_audit.report.charts.bars import Bar, bars
from potluck_audit.report.numbers import MINUS, Table, figure, number
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View

SYNERGY = f"synergy v(N) {MINUS} Σ v(i)"
MANY = 16
"""Beyond so many coalitions the chart shows only those of one, of all and of all but one."""


def section(view: View) -> Section:
    coalitions = list(view.results.all("coalition"))
    credits = list(view.results.all("credit"))
    html = fill_in(
        "sections/worth.html.j2",
        evaluated=view.team is not None,
        unit=view.unit,
        coalition_chart=coalition_chart(view, coalitions),
        coalitions=_table(view, coalitions),
        credit_chart=credit_chart(view, credits),
        conserved=_conserved(view, coalitions, credits),
        interaction_chart=interaction_chart(view),
        percent=view.percent,
        swaps=_swaps(view),
    )
    return Section("worth", "What the team is worth, and who earned it", "Credit", html)


def coalition_chart(view: View, coalitions: Sequence[Metric]) -> Markup:
    agents = view.team.agents if view.team else ()
    few = len(coalitions) <= MANY
    chosen = [m for m in coalitions if few or len(_members(m)) in (0, 1, len(agents) - 1, len(agents))]
    marks = view.marks("return")
    groups = {
        f"v({_brief(m, agents)})": [Bar(_seat(m, agents), m.estimate, f"v({m.key or 'nobody'})", marks)] for m in chosen
    }
    return bars(groups, label_width=112) if groups else Markup()


def _members(metric: Metric) -> list[str]:
    return metric.key.split("+") if metric.key else []


def _brief(metric: Metric, agents: Sequence[str]) -> str:
    """Seats for names, and all but one by the one that lacks."""
    members = _members(metric)
    if not members:
        return "nobody"
    if len(members) == len(agents):
        return "all"
    seats = [str(agents.index(m)) for m in members if m in agents]
    if len(members) > 2 and len(members) == len(agents) - 1:
        return "all but " + next(str(n) for n, a in enumerate(agents) if a not in members)
    return ("only " if len(seats) == 1 else "") + ", ".join(seats)


def _seat(metric: Metric, agents: Sequence[str]) -> int:
    members = _members(metric)
    return agents.index(members[0]) if len(members) == 1 and members[0] in agents else 7


def _table(view: View, coalitions: Iterable[Metric]) -> Table | None:
    rows: list[tuple[str, str, Markup]] = [_row(f"v({m.key or 'nobody'})", m) for m in coalitions]
    for metric in view.results.all("synergy"):
        rows.append(_row(f"{SYNERGY}, others {metric.key}", metric))
    for metric in view.results.all("necessity"):
        rows.append(_row(f"necessity of {metric.agent}, replaced by {metric.key}", metric))
    for metric in view.results.all("credit"):
        rows.append(_row(f"credit of {metric.agent}, baseline {metric.key}", metric))
    for metric in view.results.all("interaction"):
        rows.append(_row(f"interaction of {_and(metric.agent)}, baseline {metric.key}", metric))
    if not rows:
        return None
    text = f"Values of coalitions and what follows from them, in {view.unit} per episode."
    return Table(text, ("quantity", "episodes", view.unit), rows)


def _row(title: str, metric: Metric) -> tuple[str, str, Markup]:
    return title, str(metric.estimate.episodes), figure(metric)


def _and(pair: str) -> str:
    return pair.replace("+", " and ")


def credit_chart(view: View, credits: Sequence[Metric]) -> Markup:
    seats = {agent: seat for seat, agent in enumerate(view.team.agents)} if view.team else {}
    groups = {
        _against(metric.agent, metric, credits): [
            Bar(seats.get(metric.agent, 7), metric.estimate, f"credit of {metric.agent}, baseline {metric.key}")
        ]
        for metric in credits
    }
    return bars(groups, label_width=_room(76, credits)) if groups else Markup()


def _room(width: float, found: Sequence[Metric]) -> float:
    """For labels, which name the baseline where there are several."""
    names = {m.key for m in found}
    return width if len(names) < 2 else width + 6.5 * max(len(name) for name in names)


def _against(title: str, metric: Metric, all_of_them: Sequence[Metric]) -> str:
    """The title, and the baseline where there are several."""
    return f"{title}, {metric.key}" if len({m.key for m in all_of_them}) > 1 else title


def _conserved(view: View, coalitions: Sequence[Metric], credits: Sequence[Metric]) -> list[str]:
    """For every baseline: what the credits sum to, and what the baseline earns alone."""
    found = []
    played = next((m.estimate.value for m in coalitions if not m.key), None)
    for baseline in dict.fromkeys(m.key for m in credits):
        total = fsum(m.estimate.value or 0.0 for m in credits if m.key == baseline)
        other = next(view.results.all("baseline_alone", key=baseline), None)
        empty = other.estimate.value if other else played
        alone = "undefined" if empty is None else number(empty)
        found.append(
            f"Baseline {baseline}: the credits sum to {number(total)}, which is v(N) {MINUS} v(∅); "
            f"v(∅) = {alone} is earned by the baseline alone and belongs to nobody."
        )
    return found


def interaction_chart(view: View) -> Markup:
    """Pairwise interactions: above zero two agents are worth more together, below they get into each other's way."""
    found = list(view.results.all("interaction"))
    groups = {
        _against(_and(m.agent), m, found): [Bar(7, m.estimate, f"interaction of {_and(m.agent)}, baseline {m.key}")]
        for m in found
    }
    return bars(groups, label_width=_room(140, found)) if groups else Markup()


def _swaps(view: View) -> Table | None:
    """Agents beside partners of other teams, and beside partners that learned nothing."""
    found = [m for m in view.results.metrics if m.set == "swap"]
    rows = [
        (_pairing(m), str(m.estimate.episodes), figure(m, percent=m.name == "cross_play_gap"))
        for name in ("self_play", "cross_play", "cross_play_gap", "pairing", "partner", "rotated")
        for m in found
        if m.name == name
    ]
    text = f"Partners swapped, in {view.unit} per episode; the uniform partner learned nothing, the greedy is scripted."
    return Table(text, ("who plays", "episodes", view.unit), rows) if rows else None


def _pairing(metric: Metric) -> str:
    words = {
        "self_play": "teams as they learned (self-play)",
        "cross_play": "agents with partners of other teams (cross-play)",
        "cross_play_gap": "(self-play - cross-play) / self-play",
        "rotated": f"{metric.key}, every agent one seat further",
    }
    return words.get(metric.name) or f"{metric.agent} of {metric.key}".strip()
