"""Figure 1 and the solo tests: Asymmetric Advantages and Forced Coordination.

The paper reads one agent's 72 % of waiting decisions, and solo scores of 4 and 2, as one worker and one idler. Three
things are missing there. The kitchens share their pots, so that work is handed on through a pot without any counter.
Waits are short, so that a share of decisions is not a share of time. And solo scores that add up to the team's say that
two agents work side by side, not that one does it all.
"""

from __future__ import annotations

from potluck_audit.metrics.handoffs import REQUIRED_TRANSFERS
from potluck_audit.metrics.metric import Metric
from potluck_audit.metrics.options import WITHOUT_WAIT
from potluck_audit.paper import published
from potluck_audit.paper.readings import Part, Reading, said, side
from potluck_audit.saved import SavedResults, SavedSet
from potluck_audit.tables.grid import Cell, Grid, Number

AA, FC = "asymmetric_advantages", "forced_coordination"


def kitchen(results: SavedResults, team: SavedSet, charts: dict[str, str]) -> Part:
    """Histograms, solo tests and hand-offs of a run in Overcooked."""
    layout = team.game.rpartition("/")[2]
    drawn = ("options-by-decisions-trained.svg", "options-by-time-trained.svg", "handoffs-trained.svg", "credit.svg")
    readings = [_idler(results, team), _alone(results, team, layout), _handed(results, team, layout)]
    return Part(
        f"Overcooked, {layout}",
        [_shares(results, team, layout), _solo(results, team, layout)],
        [(name, charts[name]) for name in drawn if name in charts],
        readings,
    )


def _shares(results: SavedResults, team: SavedSet, layout: str) -> Grid:
    options = list(dict.fromkeys(m.key for m in results.all("option_share_decisions", team.name)))
    printed = published.AA_SHARES if layout == AA and len(team.agents) == 2 else {}
    rows: list[list[Cell]] = []
    for option in [*options, *(o for o in printed if o not in options)]:
        for seat, agent in enumerate(team.agents):
            own = [
                _number(results.find(f"option_share_{w}", team.name, agent, option), percent=True)
                for w in ("decisions", "time")
            ]
            paper = f"{100 * printed[option][seat]:.1f} %" if option in printed else "\N{EN DASH}"
            rows.append([option, agent, paper, *own])
    header = ["option", "agent", "paper, decisions", "ours, decisions", "ours, time"]
    return Grid("shares", "Shares of each agent's own choices (figure 1).", header, rows)


def _solo(results: SavedResults, team: SavedSet, layout: str) -> Grid:
    paper = {AA: ("6.2 to 6.8", *published.AA_SOLO), FC: (published.FC_TEAM, *published.FC_SOLO)}.get(layout)
    names = [("the team", results.find("return", team.name))]
    names += [(f"{agent} alone", next(results.all("solo", team.name, agent=agent), None)) for agent in team.agents]
    rows: list[list[Cell]] = [
        [name, str(paper[at]) if paper and at < len(paper) else "\N{EN DASH}", _number(metric)]
        for at, (name, metric) in enumerate(names)
    ]
    rows += [
        [f"the {short} team", "0" if short == "frozen" and layout == FC else "\N{EN DASH}", _number(metric)]
        for short in ("frozen", "uniform")
        if (metric := results.find("return", f"eval/{short}"))
    ]
    for name, words in (("synergy", "synergy v(N) - Σ v(i)"), ("necessity", "necessity")):
        for metric in results.all(name, team.name):
            rows.append([f"{words} {metric.agent}".strip(), "\N{EN DASH}", _number(metric)])
    return Grid("solo", f"Solo tests, in {team.unit} per episode.", ["who plays", "paper", "ours"], rows)


def _idler(results: SavedResults, team: SavedSet) -> Reading:
    waits = []
    for agent in team.agents:
        by_decisions = results.find("option_share_decisions", team.name, agent, "wait")
        by_time = results.find("option_share_time", team.name, agent, "wait")
        idle = results.find("idle_share", team.name, agent, "all")
        waits.append(
            f"{agent} waits in {said(by_decisions, percent=True)} of its decisions and in "
            f"{said(by_time, percent=True)} of its options' time, and idles in {said(idle, percent=True)} of its steps"
        )
    apart = results.find("option_divergence_decisions", team.name)
    time = results.find("option_divergence_time", team.name)
    busy = results.find("option_divergence_decisions", team.name, "", WITHOUT_WAIT)
    found = (
        f"{'; '.join(waits)}. Divergence between the agents in bits: {said(apart, digits=3)} by decisions (paper, "
        f"Asymmetric Advantages: {published.AA_DIVERGENCE}), {said(time, digits=3)} by time, {said(busy, digits=3)} by "
        f"decisions without waiting (paper: {published.AA_DIVERGENCE_WITHOUT_WAIT})."
    )
    weaker = (
        "Shares of decisions overstate what is short. Most of the paper's divergence is waiting: without it less than "
        "half is left. And histograms confound policy with place, since agents in different kitchens have different "
        "menus."
    )
    return Reading(
        "Figure 1 of Asymmetric Advantages: one agent works, the other waits in 71.66 % of its decisions.",
        found,
        weaker,
    )


def _alone(results: SavedResults, team: SavedSet, layout: str) -> Reading:
    synergy = next(results.all("synergy", team.name), None)
    meaning = {
        "above": "the team earns more than its members alone: they need each other",
        "around": "the team earns what its members earn side by side, as far as these episodes tell",
        "below": "the members hinder each other",
        "unknown": "what the team owes to company is not known",
    }[side(synergy.estimate if synergy else None)]
    credits = "; ".join(f"{m.agent} {said(m)}" for m in results.all("credit", team.name)) or "not measured"
    found = f"Synergy {said(synergy)}: {meaning}. Shapley credit: {credits}."
    weaker = (
        f"In the paper the agents alone earn {published.AA_SOLO[0]:g} and {published.AA_SOLO[1]:g}, and together "
        f"{published.AA_TEAM[0]:g} to {published.AA_TEAM[1]:g}: the sum of the two. That is parallel work and not one "
        "agent that does everything; a difference to solo scores needs its interval, paired by seed."
        if layout != FC
        else "Solo scores of 0 show only that the layout cannot be played alone; they do not tell who does what."
    )
    return Reading(
        "Solo tests: the agents alone deliver 4 and 2 in Asymmetric Advantages, 0 and 0 in Forced Coordination.",
        found,
        weaker,
    )


def _handed(results: SavedResults, team: SavedSet, layout: str) -> Reading:
    kinds = ", ".join(
        f"{words} {said(results.find('handoffs', team.name, '', kind))}"
        for kind, words in (("counter", "over counters"), ("pot", "through pots"), ("soup", "of plated soups"))
    )
    per_soup, mixed = (
        results.find("handoffs_per_soup", team.name), results.find("soups_together", team.name, "", "chain"),
    )  # fmt: skip
    found = (
        f"Hand-offs per episode: {kinds}; per delivered soup {said(per_soup)}. Soups that more than one agent worked "
        f"on: {said(mixed, percent=True)}."
    )
    required = REQUIRED_TRANSFERS.get(f"overcooked/{layout}")
    if required:
        check = next((c for c in results.checks if c.set == team.name and "cross-agent" in c.name), None)
        found += f" The layout forces {required} transfers upon every soup: {check.detail if check else 'not checked'}."
    weaker = (
        "No counter operation is not no hand-off: where both kitchens reach the pots, onions of one agent are plated "
        "by the other. Hand-offs must be followed through pots."
    )
    return Reading("Figure 1 of Asymmetric Advantages: nothing is put on or taken from a counter.", found, weaker)


def _number(metric: Metric | None, percent: bool = False) -> Number:
    return Number(metric.estimate if metric else None, percent)
