"""The verdict, the figures that it rests on, and the checks without which no figure counts."""

from __future__ import annotations

from markupsafe import Markup

from potluck_audit.intervals import UNDEFINED
from potluck_audit.report.numbers import MINUS, Table, figure, interval, number, p_value
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View
from potluck_audit.verdict.verdict import CheckpointVerdict, Decoupling, Outcome, Verdict

KINDS = {
    Verdict.COOPERATIVE: "good",
    Verdict.PARALLEL: "plain",
    Verdict.CARRIED: "bad",
    Verdict.FREE_RIDING: "bad",
    Verdict.UNDECIDED: "plain",
}
GATES = {Outcome.COUPLED: "good", Outcome.DECOUPLED: "bad", Outcome.UNDECIDABLE: "plain"}


def section(view: View) -> Section:
    found = view.decoupling
    last = found.checkpoints[-1] if found and found.checkpoints else None
    html = fill_in(
        "sections/verdict.html.j2",
        verdict=_headline(last) if last else None,
        gate={"word": str(found.outcome), "reason": found.reason, "kind": GATES[found.outcome]} if found else None,
        cards=_cards(view),
        checkpoints=_checkpoints(found) if found and found.checkpoints else None,
        comparisons=_comparisons(found) if found and found.comparisons else None,
        checks=view.results.checks,
        failed=[check for check in view.results.checks if check.passed is False],
        held=[check for check in view.results.checks if check.passed],
        notes=view.results.notes,
    )
    return Section("verdict", "Verdict", "Verdict", html)


def _headline(last: CheckpointVerdict) -> dict[str, str]:
    return {
        "kind": KINDS[last.verdict],
        "word": str(last.verdict).capitalize(),
        "reason": f"{last.reason} (Checkpoint of round {last.round}, {last.episodes} episodes.)",
    }


def _checkpoints(found: Decoupling) -> Table:
    """Reward and cooperation side by side, a checkpoint a row."""
    agents = list(dict.fromkeys(m.agent for c in found.checkpoints for m in c.metrics if m.name == "necessity"))
    rows = []
    for one in found.checkpoints:
        baseline = one.baseline
        rows.append(
            (
                str(one.round),
                str(one.verdict),
                figure(one.find("return")),
                figure(one.find("synergy", "", baseline)),
                *(figure(one.find("necessity", agent, baseline)) for agent in agents),
            )
        )
    header = ("after round", "verdict", "return", "synergy", *(f"necessity of {agent}" for agent in agents))
    return Table(f"Verdict of every checkpoint, in {found.unit} per episode.", header, rows, labels=2)


def _comparisons(found: Decoupling) -> Table:
    rows = [
        (str(c.round), c.measure, figure(c.reward), figure(c.change), _p(c.p_value), _p(c.p_holm))
        for c in found.comparisons
    ]
    header = ("since round", "measure", "reward changed by", "measure changed by", "p", "p (Holm)")
    text = "The last checkpoint against earlier ones, paired by seed. p: reward rose and the measure fell."
    return Table(text, header, rows, labels=2)


def _p(value: float | None) -> Markup:
    return p_value(None) if value is None else Markup("&lt; 0.001") if value < 0.001 else Markup(f"{value:.3f}")


def _cards(view: View) -> list[tuple[str, str]]:
    """The first numbers that a reader wants, each with its interval."""
    results, team, unit = view.results, view.team, view.unit
    gain = results.find("return_gain", team.name, key="eval/frozen") if team else None
    wanted = [
        (view.find(team, "return"), f"{unit} per episode, {view.team_label} team"),
        *((view.find(group, "return"), f"{unit} per episode, {short} team") for short, group in view.beside.items()),
        (gain, f"{view.team_label} {MINUS} frozen, paired by seed"),
        (view.find(team, "handoffs_per_soup"), "hand-offs per delivered soup"),
        (view.find(team, "equality"), "equality of consumption"),
        (view.find(team, "patch_survival_area"), "of patch-steps alive"),
        (next(results.all("synergy"), None), f"{unit} of synergy, v(N) {MINUS} Σ v(i)"),
    ]
    cards = []
    for metric, text in wanted:
        value, low, high, _ = metric.estimate if metric else UNDEFINED
        if value is not None:
            between = f" {interval(low, high)}" if low is not None and high is not None else " (no interval)"
            cards.append((number(value), text + between))
    return cards
