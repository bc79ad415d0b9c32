"""Answers in free text, for the JSON interface: one Generate a decision, held to the same proofs as scored menus.

The rules (which list every option and target) are the system message; state and memory are the user message. What is
written goes to the env server as it is: what it cannot read or carry out becomes a `wait` with a typed outcome. A text
has no exact distribution over a menu, so these decisions have no log-probability.
"""

import asyncio
import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from potluck.common.v1.common_pb2 import Prompt
from potluck.play.policy_client import PolicyClient
from potluck.play.specs import EpisodeSpec, PlayOptions
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy, DescribeResponse, GenerateRequest, ScoredChoice
from potluck.rpc.errors import PotluckError, Reason

if TYPE_CHECKING:
    from potluck.play.scoring import Ask

_AT_ONCE = 4
"""Requests under way: each has its own deadline, and a server writes one text at a time."""


def check_writers(spec: EpisodeSpec) -> None:
    """Refuses policies that have no text to give."""
    for agent, policy in spec.policies.items():
        if policy.WhichOneof("kind") == "builtin" and policy.builtin != BuiltinPolicy.BUILTIN_POLICY_FROZEN:
            name = BuiltinPolicy.Name(policy.builtin).removeprefix("BUILTIN_POLICY_").lower()
            message = f"{agent} is played by {name}, a rule over menus, and the JSON interface has none"
            cure = "give it an adapter or the frozen base, or play the menu interface"
            raise PotluckError(Reason.UNSUPPORTED, message, cure, field="interface", agent=agent)


def user_message(prompt: Prompt) -> str:
    """State and memory as text; the rules travel as the system message."""
    memory = "\n".join(f"- {' '.join(entry.split())}" for entry in prompt.memory) or "- none"
    return (
        f"Present state:\n{prompt.observation.strip()}\n"
        f"Your last options, oldest first:\n{memory}\n"
        "Answer with one JSON object and nothing else."
    )


class Writer:
    """Asks the policy server for texts."""

    def __init__(self, client: PolicyClient, options: PlayOptions, described: DescribeResponse) -> None:
        if not described.generates:
            message = f"the backbone {described.backbone!r} writes no text, so it cannot answer the JSON interface"
            cure = "serve a causal language model, or play the menu or native interface"
            raise PotluckError(Reason.UNSUPPORTED, message, cure, field="interface", backbone=described.backbone)
        self._client = client
        self._options = options
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def write(self, asks: "Sequence[Ask]", seeds: Sequence[int]) -> list[tuple[ScoredChoice, str, str]]:
        """For each decision, in order: a choice without letter, the text, and the base that wrote it."""
        tasks = [asyncio.create_task(self._one(ask, seed)) for ask, seed in zip(asks, seeds, strict=True)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, ask: "Ask", seed: int) -> tuple[ScoredChoice, str, str]:
        options, agent, prompt = self._options, ask.point.agent, ask.point.prompt
        policy = ask.spec.policies[agent]
        temperature = 0.0 if options.greedy else options.temperatures.get(agent, options.temperature)
        request = GenerateRequest(
            policy=policy,
            system=prompt.rules,
            prompt=user_message(prompt),
            max_tokens=options.max_tokens,
            temperature=temperature,
            seed=seed,
        )
        async with self._room:
            reply = await self._client.generate(request, options.choose_timeout_s)
        choice = ScoredChoice(
            logprob=math.nan,
            label_mass=math.nan,
            adapter_digest=reply.adapter_digest,
            builtin=policy.builtin,
            prompt_digest=hashlib.sha256(f"{request.system}\n\n{request.prompt}".encode()).hexdigest(),
            prompt_tokens=reply.prompt_tokens,
        )
        return choice, reply.text, reply.base_digest
