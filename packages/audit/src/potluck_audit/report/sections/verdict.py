"""The verdict, the figures that it rests on, and the checks without which no figure counts."""

from __future__ import annotations

from markupsafe import Markup

from potluck_audit.intervals import UNDEFINED
from potluck_audit.report.numbers import ABSENT, MINUS, Cell, Table, figure, interval, number
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
        "reason": f"For {last.reason} (checkpoint of round {last.round}, {last.episodes} episodes, others act by "
        f"{last.baseline}).",
    }


MEASURES = {
    "synergy_share": "synergy, share of return",
    "least_needed": "least needed agent, share",
    "made_together": "made together",
    "constructive_handoffs": "constructive hand-offs per delivery",
    "least_active": "least active agent",
}


def _checkpoints(found: Decoupling) -> Table:
    """Reward and cooperation side by side, a checkpoint a row, and the baselines on the same seeds below."""
    names = [name for name in MEASURES if any(c.find(name) for c in found.checkpoints)]
    rows: list[tuple[Cell, ...]] = [
        (f"round {c.round}", str(c.verdict), figure(c.find("return")), *(figure(c.find(name)) for name in names))
        for c in found.checkpoints
    ]
    rows += [(f"{m.key} team", "", figure(m), *(ABSENT for _ in names)) for m in found.references]
    header = ("checkpoint", "verdict", f"return, {found.unit}", *(MEASURES[name] for name in names))
    return Table("Verdict of every checkpoint, with the frozen and the uniform team.", header, rows, labels=2)


def _comparisons(found: Decoupling) -> Table:
    rows = [
        (str(c.round), c.measure, figure(c.reward), figure(c.change), _p(c.p_value), _p(c.p_holm))
        for c in found.comparisons
    ]
    header = ("since round", "measure", "reward changed by", "measure changed by", "p", "p (Holm)")
    text = "The last checkpoint against earlier ones, paired by seed. p: reward rose and the measure fell."
    return Table(text, header, rows, labels=2)


def _p(value: float | None) -> Markup:
    """None where it cannot be tested."""
    if value is None:
        return Markup("undefined")
    return Markup("&lt; 0.001") if value < 0.001 else Markup(f"{value:.3f}")


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
