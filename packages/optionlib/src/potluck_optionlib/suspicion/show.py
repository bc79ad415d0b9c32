"""The suspicion report as a table for the terminal and as one page without network, light and dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from rich.table import Table

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.evidence import EXPLICIT, RAISED
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.suspicion.patterns import Suspicion

COLUMNS = ("success", "effect_fail", "timeout", "explicit", "raised")

_STYLE = """
:root { color-scheme: light dark; --line: #d5d5d8; --soft: #66666e; --mark: #a33; --back: #fff; --text: #1c1c20; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a3a42; --soft: #a0a0aa; --mark: #ff8f80; --back: #17171b; --text: #ececf0; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  background: var(--back); color: var(--text); }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.kind { color: var(--mark); white-space: nowrap } .soft { color: var(--soft) } code { font-size: .9em }
"""


def outcomes(burnins: Sequence[Burnin]) -> Mapping[str, Counter[str]]:
    """Executions of each option by outcome (explicit reasons and exceptions together)."""
    found: dict[str, Counter[str]] = {}
    for burnin in burnins:
        for tally in burnin.tallies():
            kind = tally.outcome
            for prefix in (EXPLICIT, RAISED):
                kind = prefix.rstrip(":") if kind.startswith(prefix) else kind
            found.setdefault(tally.option, Counter())[kind] += tally.count
    return dict(sorted(found.items()))


def table(suspicions: Sequence[Suspicion]) -> Table:
    """For the terminal."""
    shown = Table("option", "pattern", "evidence")
    for suspicion in suspicions:
        shown.add_row(suspicion.option, suspicion.kind.value, suspicion.evidence)
    return shown


def page(burnins: Sequence[Burnin], library: GuardLibrary, suspicions: Sequence[Suspicion]) -> str:
    """The report as HTML."""
    games = ", ".join(dict.fromkeys(burnin.game for burnin in burnins))
    records = sum(counts.total() for counts in outcomes(burnins).values())
    sources = "".join(
        f"<li><code>{escape(b.digest)}</code> {escape(b.game)}, {b.plan.solo_episodes} solo and "
        f"{b.plan.team_episodes} team episodes, seed {b.plan.seed}</li>"
        for b in burnins
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Suspicions: {escape(games)}</title><style>{_STYLE}</style></head><body>
<h1>Suspicions about the contracts of {escape(games)}</h1>
<p class="soft">{records:,} executions, {len(library.guards)} guards, library <code>{library.digest[:12]}</code></p>
{_suspicions(suspicions)}
<h2>Outcomes</h2><div class="scroll">{_outcomes(burnins, library)}</div>
<h2>Burn-ins</h2><ul>{sources}</ul>
</body></html>
"""


def _suspicions(suspicions: Sequence[Suspicion]) -> str:
    if not suspicions:
        return "<p>No pattern of a faulty contract was found.</p>"
    rows = "".join(
        f"<tr><td>{escape(s.option)}</td><td class=kind>{escape(s.kind.value)}</td><td>{escape(s.evidence)}</td></tr>"
        for s in suspicions
    )
    head = "<tr><th>option</th><th>pattern</th><th>evidence</th></tr>"
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _outcomes(burnins: Sequence[Burnin], library: GuardLibrary) -> str:
    guards = Counter(guard.option for guard in library.guards)
    head = "".join(f"<th class=n>{name}</th>" for name in (*COLUMNS, "guards"))
    rows = ""
    for option, counts in outcomes(burnins).items():
        cells = "".join(f"<td class=n>{n:,}</td>" for n in (*(counts[name] for name in COLUMNS), guards[option]))
        rows += f"<tr><td>{escape(option)}</td>{cells}</tr>"
    return f"<table><tr><th>option</th>{head}</tr>{rows}</table>"
