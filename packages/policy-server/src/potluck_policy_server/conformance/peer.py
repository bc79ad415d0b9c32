"""What the checks share: the server at the other end, prompts to ask it with, and how a broken promise is told."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import SkipTest

from potluck.common.v1 import common_pb2
from potluck.play import PolicyClient
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, typed_errors
from potluck_policy_server.backbones.base import MAX_ITEMS

_STEMS = ("onion", "pot", "dish", "counter", "serve", "tomato")
FROZEN = pb.Policy(builtin=pb.BUILTIN_POLICY_FROZEN)
_ROUGH = ("bfloat16", "float16", "remote")


class Broken(AssertionError):
    """A promise that the server does not keep."""


class Skipped(SkipTest):
    """A promise that this server need not keep, and why; a test of the suite is skipped by it."""


@dataclass(frozen=True)
class Plan:
    """How much to ask."""

    decisions: int = 12
    samples: int = 400
    patience_s: float = 120.0
    """For one answer."""
    adapters: tuple[Path, ...] = ()
    """Two folders in PEFT's format, for servers whose base cannot be downloaded."""


class Peer:
    """A connected server."""

    def __init__(self, client: PolicyClient, described: pb.DescribeResponse, plan: Plan) -> None:
        self.client = client
        self.described = described
        self.plan = plan

    @property
    def learns(self) -> bool:
        """Whether the backbone takes adapters."""
        return self.described.kind in (pb.BACKBONE_KIND_CAUSAL_LM, pb.BACKBONE_KIND_TABLE)

    @property
    def tolerance(self) -> float:
        """How far two ways of computing one log-probability may differ."""
        return 0.2 if self.described.dtype in _ROUGH else 2e-4

    @property
    def largest(self) -> int:
        """A batch that is never refused for its size."""
        return max(1, min(self.described.max_batch or 1, 64))

    async def choose(self, decisions: Sequence[pb.Decision], **fields: Any) -> list[pb.ScoredChoice]:
        """Answers in order, however few decisions the server takes at once."""
        found: list[pb.ScoredChoice] = []
        for start in range(0, len(decisions), self.largest):
            part = decisions[start : start + self.largest]
            reply = await self.ask(part, **fields)
            if len(reply.choices) != len(part):
                raise Broken(f"{len(part)} decisions got {len(reply.choices)} answers")
            found += reply.choices
        return found

    async def ask(self, decisions: Sequence[pb.Decision], **fields: Any) -> pb.ChooseResponse:
        """One request."""
        request = pb.ChooseRequest(request_id="conformance", decisions=decisions, **fields)
        return await self.client.choose(request, timeout_s=self.plan.patience_s)

    async def reason(self, call: Awaitable[Any]) -> str:
        """Why a call was refused, or "an answer" where it was not."""
        try:
            with typed_errors():
                await call
        except PotluckError as error:
            return error.reason
        return "an answer"

    async def expect(self, what: str, call: Awaitable[Any], *reasons: str) -> None:
        """A call that must be refused for one of the reasons."""
        refused_with(what, await self.reason(call), *reasons)


def refused_with(what: str, found: str, *reasons: str) -> None:
    """Raises Broken unless the reason found is one of these."""
    if found not in reasons:
        raise Broken(f"{what} must be refused with {' or '.join(reasons)}; the server gave {found}")


@contextlib.asynccontextmanager
async def peer(address: str, plan: Plan) -> AsyncIterator[Peer]:
    """Connects; raises PotluckError where nothing answers."""
    async with PolicyClient(address) as client:
        await client.wait_ready(min(plan.patience_s, 10.0))
        yield Peer(client, await client.describe(), plan)


def prompt(seed: int, items: int, rules: str = "you are a cook .\nserve soups .") -> common_pb2.Prompt:
    """A made-up prompt with a menu of 1 to 26 items, `wait` last."""
    rng = random.Random(seed)
    names = [f"{stem}{number}" for number in range(1, 6) for stem in _STEMS]
    words = [*rng.sample(names, items - 1), "wait"]
    menu = [
        common_pb2.Item(
            letter=chr(65 + place),
            word=word,
            option=word.rstrip("0123456789"),
            text=f"go to {word}",
            steps=rng.randint(0, 12),
            action_key=word.rstrip("0123456789"),
            greedy=rng.random(),
        )
        for place, word in enumerate(words)
    ]
    assert 1 <= items <= MAX_ITEMS
    held = rng.choice(["none", "onion", "dish"])
    memory = [f"{rng.choice(names)} success {rng.randint(1, 9)}" for _ in range(rng.randint(0, 5))]
    return common_pb2.Prompt(
        rules=rules,
        observation=f"hold {held}\npot1 cook {rng.randint(0, 20)}",
        memory=memory,
        items=menu,
        state_key=f"held={held}",
    )


def decision(
    seed: int,
    items: int = 6,
    policy: pb.Policy = FROZEN,
    temperature: float = 1.0,
    draw: int | None = None,
    greedy: bool = False,
) -> pb.Decision:
    """A decision about `prompt(seed, items)`, sampled with `draw`."""
    return pb.Decision(
        policy=policy,
        prompt=prompt(seed, items),
        temperature=temperature,
        seed=seed if draw is None else draw,
        greedy=greedy,
    )


def adapter(digest: str) -> pb.Policy:
    """The policy of an adapter."""
    return pb.Policy(adapter=digest)
