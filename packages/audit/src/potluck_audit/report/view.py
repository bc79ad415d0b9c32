"""What a section draws from: the audited team, the baselines that stand beside it, and the replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.report.numbers import Table, figure
from potluck_audit.report.replay_data import ReplayedEpisode
from potluck_audit.results import AuditResults
from potluck_audit.saved import SavedResults, SavedSet
from potluck_audit.verdict.verdict import Decoupling

Group = EpisodeSet | SavedSet
"""An episode set with its records, or as it was saved."""

TRAINED = "eval/trained"
BASELINES = {"frozen": "eval/frozen", "uniform": "eval/uniform"}
"""Teams that stand beside every number: the base without adapters, and uniform choice from the menus."""


@dataclass(frozen=True)
class View:
    """Results and replays of one report."""

    results: AuditResults | SavedResults
    replayed: Sequence[ReplayedEpisode] = ()

    @cached_property
    def team(self) -> Group | None:
        """The trained team; without it the first team that was evaluated."""
        sets: Sequence[Group] = self.results.sets
        by_name = {s.name: s for s in sets}
        others = [s for s in sets if not s.name.startswith("eval/solo")]
        return by_name.get(TRAINED) or (others[0] if others else None)

    @cached_property
    def beside(self) -> Mapping[str, Group]:
        """Baselines that were evaluated, by short name."""
        sets: Sequence[Group] = self.results.sets
        by_name = {s.name: s for s in sets if s is not self.team}
        return {short: by_name[name] for short, name in BASELINES.items() if name in by_name}

    @property
    def lacking(self) -> list[str]:
        """Baselines that were not evaluated."""
        own = self.team.name if self.team else ""
        return [short for short, name in BASELINES.items() if short not in self.beside and name != own]

    @property
    def columns(self) -> list[tuple[str, Group | None]]:
        """The team and both baselines, measured or not."""
        first: list[tuple[str, Group | None]] = [(self.team_label, self.team)]
        return first + [(short, self.beside.get(short)) for short, name in BASELINES.items() if name != self._own]

    @property
    def _own(self) -> str:
        return self.team.name if self.team else ""

    @property
    def team_label(self) -> str:
        return self._own.removeprefix("eval/") or "team"

    @property
    def decoupling(self) -> Decoupling | None:
        """What the gate found, where it was run."""
        return self.results.decoupling if isinstance(self.results, AuditResults) else None

    @property
    def blame(self) -> Mapping[str, Any] | None:
        """What blame found, where it was run."""
        return self.results.blame if isinstance(self.results, AuditResults) else None

    def seat(self, agent: str) -> int:
        """Of an agent of the team; -1 for others."""
        return self.team.agents.index(agent) if self.team and agent in self.team.agents else -1

    @property
    def unit(self) -> str:
        return self.results.unit

    @property
    def percent(self) -> str:
        """Of the intervals, such as "95 %"."""
        return f"{100 * self.results.confidence:g} %"

    def find(self, group: Group | None, name: str, agent: str = "", key: str = "") -> Metric | None:
        return self.results.find(name, group.name, agent, key) if group else None

    def row(self, name: str, agent: str = "", key: str = "", *, digits: int = 2, percent: bool = False) -> list[Markup]:
        """A figure of the team and of both baselines."""
        return [figure(self.find(group, name, agent, key), digits, percent=percent) for _, group in self.columns]

    def count(self, group: Group) -> int:
        """Episodes of a set."""
        return group.episodes if isinstance(group, SavedSet) else len(group.episodes)

    def marks(self, name: str, agent: str = "", key: str = "") -> dict[str, float]:
        """Values of the baselines for a chart."""
        found = {short: self.find(group, name, agent, key) for short, group in self.beside.items()}
        return {s: m.estimate.value for s, m in found.items() if m is not None and m.estimate.value is not None}

    def table(self, caption: str, rows: Sequence[Row], agent: str = "") -> Table | None:
        """Measures of one agent (or the team) beside the baselines; measures that nobody has are left out."""
        kept = [
            (row.title, *self.row(row.name, agent, row.key, digits=row.digits, percent=row.percent))
            for row in rows
            if any(self.find(group, row.name, agent, row.key) for _, group in self.columns)
        ]
        return Table(caption, ("", *(short for short, _ in self.columns)), kept) if kept else None


@dataclass(frozen=True)
class Row:
    """A measure of a table: its title, where it is found, how it is written."""

    title: str
    name: str
    key: str = ""
    percent: bool = False
    digits: int = 2
