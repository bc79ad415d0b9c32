"""Hand-offs: who gives what to whom, through counters and pots, and which of them served."""

from __future__ import annotations

from markupsafe import Markup

from potluck_audit.metrics.handoffs import parse_flow
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.report.charts.flow import Flow, flow
from potluck_audit.report.numbers import Table, figure
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import Row, View

THROUGH = {"counter": "a counter", "pot": "a pot", "soup": "a plated soup's change of hands"}
TEAM = (
    Row("over a counter", "handoffs", "counter"),
    Row("through a pot", "handoffs", "pot"),
    Row("as a plated soup", "handoffs", "soup"),
    Row("per delivered soup", "handoffs_per_soup"),
    Row("reached a delivered soup", "handoffs_in_soups", percent=True),
    Row("constructive", "interdependence_share", "constructive", percent=True),
    Row("looping", "interdependence_share", "looping", percent=True),
    Row("never reached a delivery", "interdependence_share", "irrelevant", percent=True),
    Row("reached one that paid nothing", "interdependence_share", "non_constructive", percent=True),
    Row("soups of more than one agent (with fetching)", "soups_together", "chain", percent=True),
    Row("soups of more than one agent (without)", "soups_together", "making", percent=True),
)


def section(view: View) -> Section:
    told = isinstance(view.team, EpisodeSet) and any(e.events for e in view.team.episodes)
    measured = any(view.find(group, "handoffs") for _, group in view.columns)
    html = fill_in(
        "sections/handoffs.html.j2",
        measured=measured,
        told=told,
        chart=flow_chart(view),
        directions=_directions(view),
        outcomes=view.table("Objects that changed hands, per episode, and what became of them.", TEAM),
        plated=_plated(view),
    )
    return Section("handoffs", "Hand-offs", "Hand-offs", html)


def flow_chart(view: View) -> Markup:
    if view.team is None:
        return Markup()
    seats = {agent: seat for seat, agent in enumerate(view.team.agents)}
    amounts: dict[tuple[int, str, int], float] = {}
    for metric in view.results.all("handoff_flow", view.team.name):
        taker, store, _ = parse_flow(metric.key)
        place = (seats[metric.agent], store, seats[taker])
        amounts[place] = amounts.get(place, 0.0) + (metric.estimate.value or 0.0)
    return flow([Flow(*key, amount) for key, amount in amounts.items()], view.team.agents)


def _directions(view: View) -> Table | None:
    """One row for each direction, store and kind of object that any team used."""
    found = [
        (metric.agent, metric.key)
        for _, group in view.columns
        if group
        for metric in view.results.all("handoff_flow", group.name)
        if metric.estimate.value
    ]
    rows = []
    for giver, key in dict.fromkeys(found):
        taker, store, thing = parse_flow(key)
        rows.append((giver, taker, thing, THROUGH[store], *view.row("handoff_flow", giver, key)))
    header = ("from", "to", "what", "through", *(short for short, _ in view.columns))
    return Table("Hand-offs per episode by direction.", header, rows, labels=4) if rows else None


def _plated(view: View) -> Table | None:
    team = view.team
    if team is None or not any(m.estimate.value is not None for m in view.results.all("plated_delivered", team.name)):
        return None
    rows = [
        (giver, *(figure(view.find(team, "plated_delivered", giver, taker), percent=True) for taker in team.agents))
        for giver in team.agents
    ]
    header = ("plated by", *(f"delivered by {agent}" for agent in team.agents))
    return Table("Share of soups by who plated and who delivered them.", header, rows)
