"""Prompted judges: all at once, step by step, and binary search (the three methods of arXiv:2505.00212).

    all-at-once    one call over the whole log: agent and step
    step-by-step   the log is shown up to each agent's step in turn, until one is called the decisive mistake
    binary         the range of steps is halved until one is left

The last two name the agent who speaks at their step. An unparsable reply ends the judgement of that log: it is wrong
and counted, and nothing is guessed in its place. A judge that finds no mistake at all gives no answer, which is
counted too. A judge is any async function of a log and a `Caller`; None is that it finds no mistake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from potluck_audit.foreign import prompts
from potluck_audit.foreign.errors import RequestRefused
from potluck_audit.foreign.log import FailureLog
from potluck_audit.foreign.models import Model
from potluck_audit.foreign.predictions import NOTHING, Prediction, prediction


class Outcome(StrEnum):
    """How a judgement ended."""

    ANSWERED = "answered"
    UNPARSABLE = "unparsable"
    NO_MISTAKE = "no mistake found"
    REFUSED = "request refused"


@dataclass(frozen=True)
class Judgement:
    """A judge's word on one log, with its cost. Tokens are None where a call's were not told."""

    log: str
    answer: Prediction
    outcome: Outcome
    calls: int
    prompt_tokens: int | None
    output_tokens: int | None
    last_reply: str


class Unparsable(Exception):
    """A reply that is not in the form asked for."""


@dataclass
class Caller:
    """Asks about one log and keeps count."""

    model: Model
    ground_truth: bool = False
    calls: int = 0
    prompt_tokens: int | None = 0
    output_tokens: int | None = 0
    last_reply: str = ""

    async def ask(self, log: FailureLog, steps: Sequence[int], question: str) -> Mapping[str, object]:
        """The reply's object. Raises Unparsable."""
        self.calls += 1
        reply = await self.model.ask(prompts.SYSTEM, prompts.shown(log, steps, self.ground_truth) + question)
        self.prompt_tokens = _plus(self.prompt_tokens, reply.prompt_tokens)
        self.output_tokens = _plus(self.output_tokens, reply.output_tokens)
        self.last_reply = reply.text
        found = prompts.parsed(reply.text)
        if found is None:
            raise Unparsable
        return found


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


class Memory(Protocol):
    """Remembers judgements."""

    def get(self, log: FailureLog) -> Judgement | None: ...

    def put(self, log: FailureLog, judged: Judgement) -> None: ...


Judge = Callable[[FailureLog, Caller], Awaitable[Prediction | None]]


async def all_at_once(log: FailureLog, caller: Caller) -> Prediction:
    question = prompts.ALL_AT_ONCE.format(agents=", ".join(log.agents))
    found = await caller.ask(log, range(len(log.history)), question)
    return prediction(found.get("agent"), found.get("step"))


async def step_by_step(log: FailureLog, caller: Caller) -> Prediction | None:
    for step in log.agent_steps:
        question = prompts.ONE_STEP.format(step=step, speaker=log.history[step].speaker)
        mistake = (await caller.ask(log, range(step + 1), question)).get("mistake")
        if not isinstance(mistake, bool):
            raise Unparsable
        if mistake:
            return Prediction(log.history[step].speaker, step)
    return None


async def binary(log: FailureLog, caller: Caller) -> Prediction:
    first, last = 0, len(log.history) - 1
    while first < last:
        middle = (first + last) // 2
        question = prompts.WHICH_HALF.format(first=first, middle=middle, after=middle + 1, last=last)
        half = (await caller.ask(log, range(first, last + 1), question)).get("half")
        if half not in ("first", "second"):
            raise Unparsable
        first, last = (first, middle) if half == "first" else (middle + 1, last)
    return Prediction(log.history[first].speaker, first)


JUDGES: dict[str, Judge] = {"all-at-once": all_at_once, "step-by-step": step_by_step, "binary": binary}


async def judge_logs(
    judge: Judge,
    logs: Sequence[FailureLog],
    model: Model,
    *,
    ground_truth: bool = False,
    parallel: int = 4,
    memory: Memory | None = None,
    on_done: Callable[[int, int], None] = lambda done, total: None,
) -> list[Judgement]:
    """In the order of the logs. An error that every request would meet ends the whole and cancels what is asked."""
    gate, done = asyncio.Semaphore(parallel), 0

    async def one(log: FailureLog) -> Judgement:
        nonlocal done
        async with gate:
            found = memory.get(log) if memory else None
            if found is None:
                found = await _judge(judge, log, Caller(model, ground_truth))
                if memory:
                    memory.put(log, found)
        done += 1
        on_done(done, len(logs))
        return found

    tasks = [asyncio.ensure_future(one(log)) for log in logs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def _judge(judge: Judge, log: FailureLog, caller: Caller) -> Judgement:
    answer: Prediction | None = NOTHING
    try:
        answer = await judge(log, caller)
        outcome = _outcome(answer)
    except Unparsable:
        outcome = Outcome.UNPARSABLE
    except RequestRefused as error:
        outcome, caller.last_reply = Outcome.REFUSED, error.message
    cost = (caller.calls, caller.prompt_tokens, caller.output_tokens)
    return Judgement(log.name, answer or NOTHING, outcome, *cost, caller.last_reply)


def _outcome(answer: Prediction | None) -> Outcome:
    if answer is None:
        return Outcome.NO_MISTAKE
    return Outcome.UNPARSABLE if None in (answer.agent, answer.step) else Outcome.ANSWERED


def cost(judgements: Sequence[Judgement]) -> dict[str, int | None]:
    """Calls and tokens of all; tokens are None where any call's were not told."""
    prompt, output = (None, None) if any(j.prompt_tokens is None for j in judgements) else (0, 0)
    for judgement in judgements:
        prompt, output = _plus(prompt, judgement.prompt_tokens), _plus(output, judgement.output_tokens)
    counted: dict[str, int | None] = {
        "calls": sum(j.calls for j in judgements),
        "prompt_tokens": prompt,
        "output_tokens": output,
    }
    return counted | {outcome.value: sum(j.outcome is outcome for j in judgements) for outcome in Outcome}
