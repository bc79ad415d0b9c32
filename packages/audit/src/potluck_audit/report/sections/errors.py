"""First decisive errors of failed episodes: who, when, what would have been better, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from potluck_audit.intervals import Estimate
from potluck_audit.report.charts.curves import Level, Point, Series, curves
from potluck_audit.report.numbers import MINUS, Table, interval, number
from potluck_audit.report.sections.section import Section
from potluck_audit.report.templates import fill_in
from potluck_audit.report.view import View

COMMAND = "potluck-audit blame RUN --envs HOST:PORT --policy HOST:PORT"

Json = Mapping[str, Any]


def section(view: View) -> Section:
    located: Sequence[Json] = view.blame["located"] if view.blame else ()
    html = fill_in(
        "sections/errors.html.j2",
        errors=[_one(view, one) for one in located],
        agents=_by_agent(located),
        summary=_summary(located),
        command=COMMAND,
    )
    return Section("errors", "First decisive errors", "Errors", html)


def _summary(located: Sequence[Json]) -> str:
    if not located:
        return ""
    found, first = sum(one["error"] is not None for one in located), located[0]
    return (
        f"An episode failed when it earned less than {first['threshold']:g} {first['unit']}. In {found} of "
        f"{len(located)} failed episodes there is a decision after which success is no longer likely (probability "
        f"{first['tau']:g}) when the team plays on ({first['continuation']})."
    )


def _by_agent(located: Sequence[Json]) -> Table | None:
    counts = Counter(one["error"]["agent"] for one in located if one["error"])
    if not counts:
        return None
    total = sum(counts.values())
    rows = [(agent, str(n), number(n / total, percent=True)) for agent, n in sorted(counts.items())]
    return Table("Whose first decisive error it was.", ("agent", "episodes", "share of located errors"), rows)


def _one(view: View, one: Json) -> dict[str, Any]:
    error = one["error"]
    shown = {r.episode.episode_id for r in view.replayed}
    here = one["episode_id"] in shown
    return {
        "seat": view.seat(error["agent"]) if error else -1,
        "heading": _heading(error) if error else f"undecided: {one['undecided']}".replace("_", " "),
        "episode": one["episode_id"],
        "facts": _facts(one, error),
        "chart": _curve(one),
        "step": error["step"] if error else None,
        "jump": error["step"] if error and here else None,
        "repairs": _repairs(one),
    }


def _heading(error: Json) -> str:
    return f"{error['agent']}, decision {error['decision']} at step {error['step']}: {_choice(error['taken'])}"


def _choice(choice: Json | None) -> str:
    if choice is None:
        return "none"
    return f"{choice['option'].replace('_', ' ')} {choice['target']}".strip()


def _facts(one: Json, error: Json | None) -> list[tuple[str, str]]:
    unit = one["unit"]
    facts = [("Return", f"{one['team_return']:g} {unit}, {one['threshold']:g} wanted")]
    if error is None:
        return [*facts, ("Why", one["why"]), ("Cost", _cost(one))]
    facts += [
        ("Better choice", _choice(error["better"])),
        ("Success likely before and after", f"{_share(error['before'])}, then {_share(error['after'])}"),
    ]
    if gain := error["gain"]:
        facts.append(
            ("Gain of the better choice", f"{_gain(gain, 'success')} success, {_gain(gain, 'returns')} {unit}")
        )
    if again := error["redecided"]:
        facts.append(("Gain of asking again", _gains(again, unit)))
    searched = one["scan"] or "not searched"
    if one["monotone"] is not None:
        searched += ", success falls once" if one["monotone"] else ", success falls and rises"
    facts += [("Certainty", number(error["certainty"], percent=True)), ("Search", searched), ("Cost", _cost(one))]
    return facts


def _cost(one: Json) -> str:
    return f"{one['spent']['branches']} branches, {one['spent']['decisions']} decisions"


def _share(share: Json) -> str:
    shown = number(share["p"], percent=True)
    if share["low"] is None or share["high"] is None:
        return shown if share["plays"] else f"{shown} (the episode itself)"
    return f"{shown} {interval(share['low'], share['high'], percent=True)}"


def _gains(gain: Json, unit: str) -> str:
    return f"{_gain(gain, 'success')} success, {_gain(gain, 'returns')} {unit}"


def _gain(gain: Json, of: str) -> str:
    value, error = gain[of], gain[f"{of}_se"]
    sign = "+" if value >= 0 else MINUS
    shown = f"{sign}{100 * abs(value):.0f} %" if of == "success" else f"{sign}{abs(value):.2f}"
    if error is None:
        return f"{shown} (no error)"
    return f"{shown} ± {100 * error:.0f} %" if of == "success" else f"{shown} ± {error:.2f}"


def _curve(one: Json) -> Markup:
    """P(success | the episode up to a step), with the threshold."""
    points = [
        Point(p["step"], Estimate(p["share"]["p"], p["share"]["low"], p["share"]["high"], p["share"]["plays"]))
        for p in sorted(one["curve"], key=lambda p: p["boundary"])
    ]
    if len(points) < 2:
        return Markup()
    error = one["error"]
    marks = [(float(error["step"]), "error")] if error else []
    marks += [(float(repair["step"]), "repair") for repair in one["repairs"]]
    return curves(
        [Series("success", 0, points)],
        [Level("tau", Estimate(one["tau"], None, None, 0))],
        across="step",
        percent=True,
        said=f"Probability of success from each prefix of {one['episode_id']}",
        marks=marks,
    )


def _repairs(one: Json) -> Table | None:
    rows = [
        (f"{kind} at step {r['step']}", r["agent"], _choice(r["taken"]), _share(r["before"]), _share(r["after"]))
        for kind, some in (("repaired error", one["repaired"]), ("repair", one["repairs"]))
        for r in some
    ]
    header = ("what", "agent", "choice", "success before", "after")
    return Table("Errors that were repaired, and who repaired them.", header, rows, labels=3) if rows else None
