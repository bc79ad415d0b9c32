"""A language model as judge: one question about one agent in one episode, answered as one JSON object.

The model is whatever `Bench.model` names: a policy server's `Generate`, or any endpoint of OpenAI's chat protocol. A
reply that is not of the form asked for, or that names a decision which is not there, labels nothing: every label of
the agent is missing then, and the note says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potluck_audit.blame.judges.base import Bench, Judged, Label, Subject
from potluck_audit.errors import InvalidRequest
from potluck_audit.foreign.errors import RequestRefused
from potluck_audit.foreign.prompts import parsed

SYSTEM = (
    "You judge single decisions of one agent in a team game. A decision helped if the team earned more because of it, "
    "and hurt if the team earned less. You answer with one JSON object and nothing else."
)
QUESTION = (
    "Which of {agent}'s decisions helped the team, and which hurt it? Leave out those that made no difference.\n"
    'Answer as {{"reason": "<one sentence>", "helped": [<numbers>], "hurt": [<numbers>]}}.'
)


class Prompted:
    """Labels 1, -1 and 0."""

    def __init__(self, bench: Bench) -> None:
        if bench.model is None:
            raise InvalidRequest("judges", "the prompted judge has no model to ask", "give --model, or --judge-policy")
        self._model = bench.model
        self.name = f"prompted ({bench.model.name})"

    async def judge(self, subject: Subject) -> Judged:
        count = len(subject.decisions)
        try:
            reply = await self._model.ask(SYSTEM, shown(subject) + QUESTION.format(agent=subject.agent))
        except RequestRefused as refused:
            return Judged((Label(None),) * count, {"calls": 1}, f"the request was refused: {refused.message}")
        cost = {"calls": 1, "prompt_tokens": reply.prompt_tokens, "output_tokens": reply.output_tokens}
        found = parsed(reply.text)
        labels = None if found is None else read(found, count)
        if labels is None:
            return Judged((Label(None),) * count, cost, f"unparsable reply: {' '.join(reply.text.split())[:200]!r}")
        return Judged(tuple(Label(float(label)) for label in labels), cost)


def shown(subject: Subject) -> str:
    """Rules, what the team earned and when, and the agent's decisions by number."""
    case, trace = subject.case, subject.trace
    earned = ", ".join(f"{reward:g} at step {at}" for at, reward in trace.rewards) or "nothing"
    lines = [
        f"Game: {case.game}. The team earned {case.team_return:g} {case.unit} in {trace.steps} steps ({earned}).",
        f"What {subject.agent} is told: {' '.join(subject.decisions[0].prompt.rules.split())}" if trace.moments else "",
        f"The decisions of {subject.agent}:",
    ]
    for number, decision in enumerate(subject.decisions):
        saw = "; ".join(line.strip() for line in decision.prompt.observation.splitlines() if line.strip())
        options = ", ".join(item.text or item.option for item in decision.prompt.items)
        ended = f" ({decision.outcome} after {decision.duration} steps)" if decision.outcome else ""
        chose = decision.item.text or decision.item.option
        lines.append(f"{number}. Step {decision.step}, saw [{saw}], could [{options}], chose: {chose}{ended}")
    return "\n".join(line for line in lines if line) + "\n\n"


def read(found: Mapping[str, Any], count: int) -> list[int] | None:
    """One label a decision, or None where the reply is not of the form."""
    labels = [0] * count
    for name, value in (("helped", 1), ("hurt", -1)):
        numbers = found.get(name)
        if not isinstance(numbers, list):
            return None
        for number in numbers:
            whole = isinstance(number, int) and not isinstance(number, bool)
            if not whole or not 0 <= number < count or labels[number]:
                return None
            labels[number] = value
    return labels
