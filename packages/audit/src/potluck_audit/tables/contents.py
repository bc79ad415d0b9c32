"""Which numbers stand in which table.

teams         team return of every episode set, with what goes beside it
differences   paired by seed: trained minus others, synergy, necessity
credit        values of coalitions and Shapley credit
behaviour     by agent: deliveries and idle shares
handoffs      by team: objects that changed hands, divergence between agents
flow          who gave what to whom, through what
labour        division of labour and roles beside what chance gives, with tests
commons       social outcomes
training      reward and cooperation over windows of training rounds
metrics       every figure of the audit, one a row
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from potluck_audit.metrics.handoffs import parse_flow
from potluck_audit.metrics.metric import Metric
from potluck_audit.saved import SavedResults
from potluck_audit.tables.grid import Cell, Grid, Number, trimmed

MINUS = "\N{MINUS SIGN}"


def grid(results: SavedResults, name: str) -> Grid:
    """The table of that name; one without rows where nothing of the kind was measured."""
    found = _TABLES[name](results)
    return trimmed(found._replace(name=name)) if found.rows else found._replace(name=name)


def _teams(results: SavedResults) -> Grid:
    header = ["episodes", "n", f"{_unit(results)} (bootstrap)", f"{_unit(results)} (t)", "Gini of deliveries"]
    rows: list[list[Cell]] = [
        [
            label(s.name),
            str(_count(results.find("return", s.name), s.episodes)),
            _number(results.find("return", s.name)),
            _number(results.find("return", s.name, key="t")),
            _number(results.find("deliveries_gini", s.name)),
        ]
        for s in results.sets
    ]
    recorded = {s.name for s in results.sets}
    for metric in results.all("solo"):
        if f"eval/solo/{metric.agent}" not in recorded:
            name = f"solo {metric.agent} (others {metric.key})"
            rows.append([name, str(metric.estimate.episodes), _number(metric), Number(None), Number(None)])
    return Grid("", _caption(results, f"Team return, undiscounted, in {_unit(results)} per episode."), header, rows)


def _differences(results: SavedResults) -> Grid:
    found: list[tuple[str, Metric]] = []
    for metric in results.all("return_gain"):
        found.append((f"{label(metric.set)} {MINUS} {label(metric.key)}", metric))
    for metric in results.all("synergy"):
        found.append((f"synergy v(N) {MINUS} Σ v(i), baseline {metric.key}", metric))
    for metric in results.all("necessity"):
        found.append((f"necessity of {metric.agent}, baseline {metric.key}", metric))
    rows = [[*_row(name, metric), _p_value(results, metric)] for name, metric in found]
    tested = any(isinstance(row[-1], Number) and row[-1].estimate for row in rows)
    text = f"Differences of team return in {_unit(results)} per episode, paired by seed."
    if tested:
        text += " p of the paired permutation test, corrected over the comparisons."
    return Grid("", _caption(results, text), ["difference", "seeds", _unit(results), "p (Holm)"], rows)


def _p_value(results: SavedResults, metric: Metric) -> Number:
    """Of the paired permutation test, where it was made."""
    found = results.find("p_value_holm", metric.set, key=f"{metric.name} {metric.key}")
    return Number(found.estimate if found else None, digits=4, pointwise=True)


def _credit(results: SavedResults) -> Grid:
    found = [(f"v({metric.key or 'nobody'})", metric) for metric in results.all("coalition")]
    found += [(f"Shapley credit of {m.agent}, baseline {m.key}", m) for m in results.all("credit")]
    found += [(f"interaction of {m.agent}, baseline {m.key}", m) for m in results.all("interaction")]
    rows = [_row(name, metric) for name, metric in found]
    text = f"Values of coalitions and Shapley credit in {_unit(results)} per episode."
    return Grid("", _caption(results, text), ["quantity", "episodes", _unit(results)], rows)


def _row(name: str, metric: Metric) -> list[Cell]:
    return [name, str(metric.estimate.episodes), _number(metric)]


_AGENT = (
    ("deliveries", "", "deliveries", False),
    ("delivery_share", "", "share of deliveries", True),
    ("idle_share", "wait", "waiting", True),
    ("idle_share", "blocked", "blocked", True),
    ("idle_share", "noop", "no-op", True),
    ("idle_share", "all", "idle in all", True),
    ("path_length", "", "cells walked", False),
    ("distinct_cells", "", "cells visited", False),
    ("consumption", "", "apples", False),
    ("consumption_share", "", "share of apples", True),
    ("cleans", "", "cells cleaned", False),
    ("clean_share", "", "share of cleaning", True),
)
_TEAM = (
    ("handoffs", "counter", "over a counter", False),
    ("handoffs", "pot", "through a pot", False),
    ("handoffs", "soup", "plated soup", False),
    ("handoffs_per_soup", "", "per soup", False),
    ("handoffs_in_soups", "", "reached a soup", True),
    ("option_divergence_decisions", "", "divergence by decisions (bits)", False),
    ("option_divergence_time", "", "divergence by time (bits)", False),
)


_COMMONS = (
    ("efficiency", "", "efficiency (apples/step)", False),
    ("equality", "", "equality", False),
    ("sustainability", "", "sustainability (step)", False),
    ("peace", "", "peace (agents)", False),
    ("max_min", "", "least agent's apples", False),
    ("restraint", "", "restraint", True),
    ("apples_per_clean", "", "apples per cell cleaned", False),
)


def _behaviour(results: SavedResults) -> Grid:
    rows: list[list[Cell]] = [
        [
            label(s.name),
            agent,
            *(_number(results.find(n, s.name, agent, key), percent) for n, key, _, percent in _AGENT),
        ]
        for s in results.sets
        for agent in s.agents
    ]
    text = "Behaviour by agent: amounts per episode and shares of environment steps."
    return Grid("", _caption(results, text), ["episodes", "agent", *(title for *_, title, _ in _AGENT)], rows)


def _by_team(results: SavedResults, columns: Sequence[tuple[str, str, str, bool]]) -> list[list[Cell]]:
    return [
        [label(s.name), *(_number(results.find(n, s.name, "", key), share) for n, key, _, share in columns)]
        for s in results.sets
        if any(results.find(n, s.name, "", key) for n, key, *_ in columns)
    ]


def _commons(results: SavedResults) -> Grid:
    header = ["episodes", *(title for *_, title, _ in _COMMONS)]
    return Grid("", _caption(results, "Social outcomes of the commons."), header, _by_team(results, _COMMONS))


def _handoffs(results: SavedResults) -> Grid:
    rows = _by_team(results, _TEAM)
    text = "Objects that changed hands per episode, and Jensen-Shannon divergence between the agents' options."
    return Grid("", _caption(results, text), ["episodes", *(title for *_, title, _ in _TEAM)], rows)


def _flow(results: SavedResults) -> Grid:
    rows: list[list[Cell]] = []
    for metric in results.all("handoff_flow"):
        taker, store, thing = parse_flow(metric.key)
        rows.append([label(metric.set), metric.agent, taker, thing, store, _number(metric)])
    header = ["episodes", "from", "to", "what", "through", "per episode"]
    return Grid("", _caption(results, "Who gave what to whom, per episode."), header, rows)


_LABOUR = (
    ("option_information_decisions", "", "information by decisions (bits)"),
    ("option_information_time", "", "information by time (bits)"),
    ("role_persistence", "episodes", "role kept between episodes"),
)


def _labour(results: SavedResults) -> Grid:
    """Beside each figure what dealing the seats at random gives, and the test against it."""
    rows: list[list[Cell]] = []
    for group in results.sets:
        for name, key, title in _LABOUR:
            if metric := results.find(name, group.name, "", key):
                dealt = results.find(f"{name}_baseline", group.name, "", key)
                test = results.find("p_value_holm", group.name, key=name)
                p = Number(test.estimate if test else None, digits=4, pointwise=True)
                rows.append([label(group.name), title, _number(metric), _number(dealt), p])
    for metric in results.all("policy_diversity", agent=""):
        rows.append([label(metric.set), "policy diversity on common prompts (bits)", _number(metric), *_NOTHING])
    header = ["episodes", "measure", "value", "seats dealt at random", "p (Holm)"]
    return Grid("", _caption(results, "Division of labour."), header, rows)


_NOTHING = (Number(None), Number(None, digits=4, pointwise=True))


def _training(results: SavedResults) -> Grid:
    rows: list[list[Cell]] = [
        [f"{t.first} to {t.last}", t.metric.name, t.metric.agent, t.metric.key, t.metric.unit, _number(t.metric)]
        for t in results.trends
    ]
    header = ["rounds", "measure", "agent", "key", "unit", "value"]
    return Grid("", _caption(results, "Reward and cooperation over training."), header, rows)


def _metrics(results: SavedResults) -> Grid:
    rows: list[list[Cell]] = [
        [m.name, m.set, m.agent, m.key, m.unit, str(m.estimate.episodes), _number(m)] for m in results.metrics
    ]
    header = ["metric", "set", "agent", "key", "unit", "episodes", "value"]
    return Grid("", _caption(results, "Every figure of the audit."), header, rows)


_TABLES: dict[str, Callable[[SavedResults], Grid]] = {
    "teams": _teams,
    "differences": _differences,
    "credit": _credit,
    "behaviour": _behaviour,
    "handoffs": _handoffs,
    "flow": _flow,
    "labour": _labour,
    "commons": _commons,
    "training": _training,
    "metrics": _metrics,
}
NAMES: Sequence[str] = tuple(_TABLES)
DEFAULT: Sequence[str] = tuple(name for name in NAMES if name not in ("metrics", "training"))
_COMPARABLE = ("Game", "Dynamics", "Horizon", "Backbone", "Evaluation seeds")


def label(set_name: str) -> str:
    """eval/solo/agent_0 -> solo agent_0."""
    return set_name.removeprefix("eval/").replace("/", " ")


def _caption(results: SavedResults, text: str) -> str:
    """What must be known before a number is compared with another's stands in the caption."""
    facts = ", ".join(f"{name.lower()} {results.facts[name]}" for name in _COMPARABLE if results.facts.get(name))
    said = f"{text} Brackets: {100 * results.confidence:g} % intervals over episodes. Run {results.run}"
    return f"{said}: {facts}." if facts else f"{said}."


def _number(metric: Metric | None, percent: bool = False) -> Number:
    return Number(metric.estimate if metric else None, percent)


def _count(metric: Metric | None, otherwise: int) -> int:
    return metric.estimate.episodes if metric else otherwise


def _unit(results: SavedResults) -> str:
    return results.unit
