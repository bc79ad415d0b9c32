"""Decisions of one wave at the policy server, and the proof that the answers are what was asked for.

The decisions of all live episodes go into one Choose, cut only where the server's `max_batch` demands it, never by
time: the same wave always makes the same batches. Those of the JSON interface are written instead (writing.py).
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from typing import NamedTuple

from potluck.env.v1.env_service_pb2 import DecisionPoint
from potluck.play.errors import DigestMismatch
from potluck.play.policy_client import PolicyClient
from potluck.play.specs import EpisodeSpec, PlayOptions
from potluck.play.writing import Writer
from potluck.policy.v1.policy_service_pb2 import ChooseRequest, ChooseResponse, Policy, ScoredChoice
from potluck.rpc.errors import PotluckError, Reason

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_ONE_BASE = "do not change the policy server's backbone during a run"


class Ask(NamedTuple):
    """One decision to score."""

    spec: EpisodeSpec
    point: DecisionPoint


class Answer(NamedTuple):
    """What a policy said: an item of the menu, or under the JSON interface a text."""

    choice: ScoredChoice
    text: str | None = None


def decision_seed(sample_seed: int, agent: str, decision: int) -> int:
    """The seed of one decision's sample: the same for an agent's n-th decision whatever the others do."""
    return int.from_bytes(hashlib.sha256(f"{sample_seed}/{agent}/{decision}".encode()).digest()[:8], "big")


class Scorer:
    """Scores waves and holds the server to one base."""

    def __init__(self, client: PolicyClient, options: PlayOptions) -> None:
        self._client = client
        self._options = options
        self._requests = 0
        self.base_digest = ""
        self.tokenizer_digest = ""
        self._max_batch = 0
        self._writer: Writer | None = None

    async def answers(self, asks: Sequence[Ask]) -> list[Answer]:
        """One answer per decision, in order."""
        scored = iter(await self.score([ask for ask in asks if not ask.spec.in_json]))
        written = iter(await self._write([ask for ask in asks if ask.spec.in_json]))
        return [next(written) if ask.spec.in_json else Answer(next(scored)) for ask in asks]

    async def score(self, asks: Sequence[Ask]) -> list[ScoredChoice]:
        """One choice per menu, in order."""
        if not self._max_batch:
            await self._describe()
        choices: list[ScoredChoice] = []
        for start in range(0, len(asks), self._max_batch):
            choices.extend(await self._batch(asks[start : start + self._max_batch]))
        return choices

    async def _write(self, asks: Sequence[Ask]) -> list[Answer]:
        if not asks:
            return []
        if self._writer is None:
            self._writer = Writer(self._client, self._options, await self._client.describe())
        answers = []
        for ask, (choice, text, base) in zip(asks, await self._writer.write(asks, _seeds(asks)), strict=True):
            self._same_base(base)
            _same_policy(ask.spec.policies[ask.point.agent], choice, ask.point.agent)
            answers.append(Answer(choice, text))
        return answers

    async def _describe(self) -> None:
        described = await self._client.describe()
        self._max_batch = described.max_batch or (1 << 31)
        self.base_digest = described.base_digest
        self.tokenizer_digest = described.tokenizer_digest

    async def _batch(self, asks: Sequence[Ask]) -> Sequence[ScoredChoice]:
        reply = await self._choose(self._request(asks))
        self._check(asks, reply)
        return reply.choices

    async def _choose(self, request: ChooseRequest) -> ChooseResponse:
        end = time.monotonic() + self._options.choose_timeout_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await self._client.choose(request, max(0.0, end - time.monotonic()))
            except PotluckError as error:
                pause = max(pause, error.retry_after_s or 0.0)
                if error.reason != Reason.OVERLOADED or time.monotonic() + pause >= end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _request(self, asks: Sequence[Ask]) -> ChooseRequest:
        options = self._options
        self._requests += 1
        request = ChooseRequest(
            request_id=f"choose-{self._requests}", label_scheme=options.label_scheme, tokens=options.tokens
        )
        add = request.decisions.add
        for (spec, point), seed in zip(asks, _seeds(asks), strict=True):
            agent = point.agent
            add(
                policy=spec.policies[agent],
                prompt=point.prompt,
                temperature=options.temperatures.get(agent, options.temperature),
                seed=seed,
                greedy=options.greedy,
            )
        return request

    def _check(self, asks: Sequence[Ask], reply: ChooseResponse) -> None:
        if len(reply.choices) != len(asks):
            message = f"the policy server answered {len(reply.choices)} of {len(asks)} decisions"
            raise PotluckError(Reason.INTERNAL, message, "look into its log")
        self._same_base(reply.base_digest)
        if reply.tokenizer_digest != self.tokenizer_digest:
            raise DigestMismatch("the tokenizer of a reply", self.tokenizer_digest, reply.tokenizer_digest, _ONE_BASE)
        for (spec, point), choice in zip(asks, reply.choices, strict=True):
            _same_policy(spec.policies[point.agent], choice, point.agent)
            _offered(point, choice)

    def _same_base(self, digest: str) -> None:
        if digest != self.base_digest:
            raise DigestMismatch("the base of a reply", self.base_digest, digest, _ONE_BASE)


def _seeds(asks: Sequence[Ask]) -> list[int]:
    return [decision_seed(spec.sample_seed, point.agent, point.decision) for spec, point in asks]


def _same_policy(policy: Policy, choice: ScoredChoice, agent: str) -> None:
    if choice.adapter_digest != policy.adapter:
        cure = "nothing was recorded from it; look into the policy server's log"
        raise DigestMismatch(f"the adapter that answered for {agent}", policy.adapter, choice.adapter_digest, cure)
    if choice.builtin != policy.builtin:
        cure = "nothing was recorded from it; use servers of one version"
        raise DigestMismatch(f"the builtin that answered for {agent}", str(policy.builtin), str(choice.builtin), cure)


def _offered(point: DecisionPoint, choice: ScoredChoice) -> None:
    items = point.prompt.items
    if (
        choice.index >= len(items)
        or items[choice.index].letter != choice.letter
        or len(choice.probabilities) != len(items)
    ):
        message = f"the policy server answered {choice.letter!r} for {point.agent}, whose menu has {len(items)} items"
        raise PotluckError(Reason.LETTER_NOT_OFFERED, message, "use servers of one version", agent=point.agent)
