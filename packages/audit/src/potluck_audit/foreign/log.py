"""A failed conversation of several agents and its label."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

ASKERS = frozenset({"human", "user"})
"""Speakers who put the task and are no agents of the team."""


def folded(name: str) -> str:
    """How agents' names are compared: whole, without regard to case, outer blanks and Unicode form."""
    return unicodedata.normalize("NFC", name).strip().casefold()


class Message(NamedTuple):
    """One step of a log."""

    speaker: str
    content: str

    @property
    def by_agent(self) -> bool:
        return folded(self.speaker) not in ASKERS


@dataclass(frozen=True)
class FailureLog:
    """Steps count from 0 over all messages, the asker's too."""

    name: str
    """Path below the folder that was read, such as Hand-Crafted/7.json."""
    group: str
    """The subfolder, or empty."""
    question: str
    ground_truth: str
    """The task's right answer, or empty."""
    history: Sequence[Message]
    mistake_agent: str
    mistake_step: int

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Who speaks, askers left out, in order of first appearance; two spellings of a name are one agent."""
        found: dict[str, str] = {}
        for message in self.history:
            if message.by_agent:
                found.setdefault(folded(message.speaker), message.speaker)
        return tuple(found.values())

    @cached_property
    def agent_steps(self) -> tuple[int, ...]:
        """Steps at which an agent speaks."""
        return tuple(step for step, message in enumerate(self.history) if message.by_agent)

    @property
    def label_agrees(self) -> bool:
        """Whether the labelled agent speaks at the labelled step."""
        return folded(self.history[self.mistake_step].speaker) == folded(self.mistake_agent)
