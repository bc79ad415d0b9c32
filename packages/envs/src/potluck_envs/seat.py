"""One seat of an episode: whose policy plays it, its decisions, and the option under way."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.baselines import Baseline
from potluck_envs.offers import Answer
from potluck_optionlib.game import NOOP, Ended, Instance
from potluck_optionlib.menus import Menu

MEMORY = 5
SPOKEN = {"success": "done", "effect_fail": "failed", "timeout": "interrupted"}
"""Outcomes in the memory, in common words; explicit failures are "failed" and their reason."""


@dataclass(slots=True)
class Seat:
    """The episode's book about one agent. Menus, answers and the memory are values: a shallow copy is independent."""

    index: int
    name: str
    rules: str
    baseline: Baseline = pb.BASELINE_UNSPECIFIED
    decisions: int = 0
    """Decisions made; the number of the next one."""
    memory: tuple[str, ...] = ()
    menu: Menu | None = None
    """The last menu."""
    answer: Answer | None = None
    """The last answer."""
    decided_at: int = 0
    instance: Instance | None = None
    """The option under way."""
    start_step: int = 0
    reward: float = 0.0
    """Team reward since the option began."""

    def copy(self) -> Seat:
        """An independent seat."""
        return copy.copy(self)

    @property
    def noop(self) -> bool:
        """Does the noop baseline act now?"""
        return self.instance == NOOP

    @property
    def decides(self) -> bool:
        """Does the stream decide for it?"""
        return self.baseline == pb.BASELINE_UNSPECIFIED

    def begin(self, instance: Instance, step: int) -> None:
        """Notes that an option starts."""
        self.instance, self.start_step, self.reward = instance, step, 0.0

    def decide(self, menu: Menu, answer: Answer, step: int) -> None:
        """Notes a decision and starts its option."""
        self.menu, self.answer, self.decided_at = menu, answer, step
        self.decisions += 1
        self.begin(answer.instance, step)

    def end(self, ended: Ended) -> pb.OptionRecord:
        """Closes the option under way and remembers it."""
        answer = self.answer
        outcome = answer.outcome if answer and answer.outcome else ended.outcome
        if answer:
            spoken = SPOKEN.get(outcome) or f"failed {outcome.removeprefix('explicit:').lower()}"
            self.memory = (*self.memory, f"{answer.word} {spoken}")[-MEMORY:]
        self.instance = None
        return self._record(ended.instance, ended.start_step, ended.duration, outcome)

    def truncate(self, step: int) -> pb.OptionRecord | None:
        """The record of an option that the end of the episode cut off."""
        if self.instance is None or self.noop:
            return None
        return self._record(self.instance, self.start_step, step - self.start_step, "truncated")

    def _record(self, instance: Instance, start: int, duration: int, outcome: str) -> pb.OptionRecord:
        return pb.OptionRecord(
            agent=self.name,
            decision=max(self.decisions - 1, 0),
            option=instance.option,
            target=instance.target,
            start_step=start,
            duration=duration,
            outcome=outcome,
            reward=self.reward,
        )
