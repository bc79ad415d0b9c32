"""`potluck-audit credit`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from potluck_audit.commands.console import say, tell

if TYPE_CHECKING:
    from potluck_audit.credit import Credit
    from potluck_audit.metrics.metric import Metric


SHOWN = 16
"""Coalitions up to which their values are printed, too."""


@dataclass(frozen=True)
class CreditCommand:
    """Share a team's return among its agents by Shapley value.

    Plays the coalitions of an evaluated team on the set's own seeds: members keep their policy, the others act by a
    baseline. All coalitions where the budget allows them, otherwise sampled orders of joining with standard errors.
    Played coalitions are kept, so that a command that broke off goes on where it was. Writes RUN/audit/credit.json.
    Exit status: 0, 1 for an error, also where the records do not come out again and no credit can be given.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    envs: str
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    set: str = "eval/trained"
    """Which team."""
    baseline: tuple[str, ...] = ("noop",)
    """How agents outside a coalition act: noop, uniform, greedy, frozen, scripted, a digest or plugin:<name>."""
    budget: int = 128
    """Different coalitions that may be played: 128 are all those of seven agents."""
    seed: int = 0
    """Of sampled orders."""
    confidence: float = 0.95
    """Of intervals."""

    def run(self) -> int:
        from potluck_audit.credit import Budget
        from potluck_audit.crediting import CreditRequest, run_credit

        request = CreditRequest(
            run=self.folder,
            envs=tuple(part.strip() for part in self.envs.split(",") if part.strip()),
            policy=self.policy,
            set=self.set,
            baselines=self.baseline,
            budget=Budget(self.budget, self.seed),
            confidence=self.confidence,
        )
        found, file = asyncio.run(
            run_credit(request, lambda name, done, total: tell(f"{name} {done}/{total}" if total else name))
        )
        for one in found:
            for line in lines(one):
                say(line)
        say(f"credit {file}")
        return 0


def lines(found: Credit) -> list[str]:
    """One team against one baseline."""
    head = f"against {found.baseline}: {found.method}, {found.coalitions} coalitions"
    if found.orders:
        head += f", {found.orders} orders of joining"
    rows = [head, f"  team {found.team_value:.4g}, nobody {found.empty_value:.4g}: to share {found.to_share:.4g}"]
    if len(found.values) <= SHOWN:
        rows += [f"  v({value.agent or 'nobody'}) {_number(value)}" for value in found.values]
    errors = {m.agent: m.estimate.value for m in found.errors}
    for credit in found.credits:
        error = errors.get(credit.agent)
        told = f", standard error of sampling {error:.3g}" if error else ""
        rows.append(f"  {credit.agent}: {_number(credit)} {credit.unit}{told}")
    rows += [f"  {pair.agent} together: {_number(pair)} {pair.unit}" for pair in found.interactions]
    return rows + [f"  {note}" for note in found.notes]


def _number(metric: Metric) -> str:
    value, low, high, _ = metric.estimate
    if value is None:
        return "undefined"
    return f"{value:+.3f}" + (f" [{low:+.3f}, {high:+.3f}]" if low is not None and high is not None else "")
