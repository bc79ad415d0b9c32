"""What the prompted judges are asked, and the one form in which they may answer.

Every reply is one JSON object. Thinking before it in <think> tags and one code fence around it are taken off; anything
else beside it makes the reply unparsable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from potluck_audit.foreign.log import FailureLog

SYSTEM = (
    "You find out why a team of agents failed at a task. The decisive mistake is the earliest step at which an agent "
    "does something wrong that makes the team fail: had that step been right, the team would have succeeded. "
    "You answer with one JSON object and nothing else."
)
ALL_AT_ONCE = (
    "Which agent made the decisive mistake, and at which step? The agents are {agents}. Steps are numbered from 0 as "
    'above.\nAnswer as {{"reason": "<one sentence>", "agent": "<name>", "step": <number>}}.'
)
ONE_STEP = (
    "The last step shown is step {step}, by {speaker}. Is it the decisive mistake?\n"
    'Answer as {{"reason": "<one sentence>", "mistake": true}} or {{"reason": "<one sentence>", "mistake": false}}.'
)
WHICH_HALF = (
    "The decisive mistake is one of the steps {first} to {last}. Is it in the first half (steps {first} to {middle}) "
    "or in the second half (steps {after} to {last})?\n"
    'Answer as {{"reason": "<one sentence>", "half": "first"}} or {{"reason": "<one sentence>", "half": "second"}}.'
)

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)


def shown(log: FailureLog, steps: Iterable[int], ground_truth: bool) -> str:
    """Task and steps of a log. The right answer is told only where it is asked for; labels never."""
    told = f"\nRight answer: {log.ground_truth}" if ground_truth and log.ground_truth else ""
    lines = (f"Step {at}, {log.history[at].speaker}: {log.history[at].content}" for at in steps)
    return f"Task: {log.question}{told}\n\nThe conversation of the team:\n\n" + "\n\n".join(lines) + "\n\n"


def parsed(text: str) -> dict[str, Any] | None:
    """The reply's object, or None."""
    body = _THINKING.sub("", text).strip()
    if fenced := _FENCE.match(body):
        body = fenced[1]
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
