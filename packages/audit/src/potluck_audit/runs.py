"""A run for notebooks: `load(path)` and its tables.

    from potluck_audit import runs

    run = runs.load("runs/demo")
    run.decisions(set="eval/trained", agent="agent_0")      # a pyarrow.Table; .to_pandas() where pandas is there
    run.episodes()
    run.credit()                                            # after `potluck-audit run`
    run.metrics(name="handoffs")

Records are only read. Tables are made when they are asked for, so that a long run costs nothing until then.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from potluck_audit import frames
from potluck_audit.errors import InvalidRequest, UnknownRun
from potluck_audit.records.episode import seat_order
from potluck_audit.saved import SavedResults, load_results


def load(path: Path | str) -> Run:
    """Raises UnknownRun where there is no run."""
    root = Path(path).expanduser().resolve()
    if not (root / "episodes").is_dir():
        raise UnknownRun(f"there is no run at {path}", "give a folder that `potluck train` or `potluck eval` wrote")
    return Run(root)


@dataclass(frozen=True)
class Run:
    """A run folder."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """Episode sets, such as train and eval/trained."""
        return tuple(frames.names(self._episodes, "set"))

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """In seat order."""
        seen = {agent for text in frames.names(self._episodes, "policies") for agent in json.loads(text)}
        return tuple(sorted(seen, key=seat_order))

    @cached_property
    def _episodes(self) -> pa.Table:
        return frames.episodes(self.path)

    @cached_property
    def results(self) -> SavedResults:
        """What the last audit found. Raises NotAudited."""
        return load_results(self.path)

    def episodes(self, set: str | None = None, agent: str | None = None) -> pa.Table:
        """One row an episode (columns: `frames.EPISODES`); with `agent`, those it played and its `policy`."""
        self._known(set, agent)
        return frames.episodes(self.path, set, agent)

    def decisions(self, set: str | None = None, agent: str | None = None) -> pa.Table:
        """One row a decision (columns: `frames.DECISIONS`)."""
        self._known(set, agent)
        return frames.decisions(self.path, set, agent)

    def metrics(self, set: str | None = None, agent: str | None = None, name: str | None = None) -> pa.Table:
        """One row a figure of the audit (columns: `frames.METRICS`). Raises NotAudited.

        Sets are episode sets and what figures name besides, such as `teams` for comparisons of runs.
        """
        self._known(set, agent, {m.set for m in self.results.metrics})
        return frames.metrics(
            m
            for m in self.results.metrics
            if set in (None, m.set) and agent in (None, m.agent) and name in (None, m.name)
        )

    def trends(self, agent: str | None = None, name: str | None = None) -> pa.Table:
        """One row a figure of consecutive training rounds (columns: `frames.TRENDS`). Raises NotAudited."""
        self._known(None, agent)
        return frames.trends(
            t for t in self.results.trends if agent in (None, t.metric.agent) and name in (None, t.metric.name)
        )

    def credit(self, set: str | None = None, agent: str | None = None) -> pa.Table:
        """One row an agent (columns: `frames.CREDIT`); none where the audit gave no credit. Raises NotAudited."""
        self._known(set, agent)
        return frames.credit(m for m in self.results.metrics if set in (None, m.set) and agent in (None, m.agent))

    def _known(self, set: str | None, agent: str | None, more: Collection[str] = ()) -> None:
        """A misspelt filter must not look like a run without rows."""
        known = dict.fromkeys([*self.sets, *sorted(more)])
        if set is not None and set not in known:
            raise InvalidRequest("set", f"{self.name} has no episode set {set!r}", f"it has {', '.join(known)}")
        if agent is not None and agent not in self.agents:
            raise InvalidRequest("agent", f"{self.name} has no agent {agent!r}", f"it has {', '.join(self.agents)}")
