"""One recorded episode, with its steps and options decoded when they are first asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb


class OptionRun(NamedTuple):
    """One execution of an option."""

    agent: str
    decision: int
    option: str
    target: str
    start_step: int
    duration: int
    outcome: str


class DecisionRow(NamedTuple):
    """One row of the decision records."""

    episode_id: str
    agent: str
    decision: int
    step: int
    option: str
    target: str
    letter: str
    probabilities: tuple[float, ...]
    outcome: str
    duration: int


def seat_order(name: str) -> tuple[str, int]:
    """Agents sit in the order of their names' numbers: agent_2 before agent_10."""
    stem, number = re.fullmatch(r"(.*?)(\d*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    return stem, int(number or 0)


@dataclass(frozen=True)
class Episode:
    """One row of the episode records."""

    set: str
    round: int
    episode_id: str
    member: int
    game: str
    library_digest: str
    dynamics: str
    seed: int
    sample_seed: int
    horizon: int
    steps: int
    team_return: float | None
    """None where the record holds no number."""
    agent_returns: tuple[float, ...]
    policies: Mapping[str, str]
    """Agent to adapter digest, builtin or baseline."""
    digest: str
    recording: bytes = field(repr=False, default=b"")
    step_records: bytes = field(repr=False, default=b"")
    attempts: int = 1
    reward_unit: str = "reward"
    temperature: float | None = None
    label_scheme: str = ""
    backbone: str = ""
    base_digest: str = ""
    decisions: Sequence[DecisionRow] = field(repr=False, default=())

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """In seat order."""
        return tuple(sorted(self.policies, key=seat_order))

    @cached_property
    def progress(self) -> env_pb.Progress:
        return env_pb.Progress.FromString(self.step_records)

    @cached_property
    def interface(self) -> env_pb.Interface.ValueType:
        """What agents chose from; menus where there is no recording that says so."""
        recorded = env_pb.Recording.FromString(self.recording).interface
        return recorded or env_pb.INTERFACE_MENU

    @property
    def events(self) -> list[tuple[int, env_pb.Event]]:
        """(step, event) in order."""
        return [(record.step, event) for record in self.progress.steps for event in record.events]

    @cached_property
    def options(self) -> tuple[OptionRun, ...]:
        """Option executions: from the environment's records, else from the decisions."""
        if self.progress.options:
            return tuple(
                OptionRun(o.agent, o.decision, o.option, o.target, o.start_step, o.duration, o.outcome)
                for o in self.progress.options
            )
        return tuple(
            OptionRun(d.agent, d.decision, d.option, d.target, d.step, d.duration, d.outcome) for d in self.decisions
        )
