"""Policies that are a rule: uniform over the menu, and the game's own greedy heuristic.

Both are builtins of every server and, served alone, backbones without adapters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import Adapter, Description, Floats, Query, Scores, Text, Upload
from potluck_policy_server.errors import Unsupported
from potluck_policy_server.folder import sha256_hex

Rule = Callable[[Sequence[common_pb2.Item]], Floats]


def uniform_logprobs(items: Sequence[common_pb2.Item]) -> Floats:
    """The same probability for every item."""
    return np.full(len(items), -np.log(len(items)))


def scripted_logprobs(items: Sequence[common_pb2.Item]) -> Floats:
    """All probability on the item of the highest `greedy` value, the first in menu order among equals."""
    logs = np.full(len(items), -np.inf)
    logs[int(np.argmax([item.greedy for item in items]))] = 0.0
    return logs


@dataclass(frozen=True, slots=True)
class MenuOnly:
    """A decision that needs nothing but its prompt's fields."""

    query: Query
    prompt_tokens: int = 0

    @property
    def prompt_digest(self) -> str:
        """sha256 of what the policy looks at: the state key, then each item's word, class and heuristic value."""
        prompt = self.query.prompt
        lines = [prompt.state_key, *(f"{item.word}\t{item.action_key}\t{item.greedy!r}" for item in prompt.items)]
        return sha256_hex("\n".join(lines).encode())

    def tokens(self) -> pb.Tokens | None:
        """A rule reads no tokens."""
        return None


class FixedBackbone:
    """A rule served as a backbone."""

    def __init__(self, name: str, rule: Rule) -> None:
        self._name = name
        self._rule = rule
        digest = sha256_hex(f"potluck rule {name} v1\n".encode())
        self.description = Description(name=name, kind=pb.BACKBONE_KIND_FIXED, base_digest=digest)

    def prepare(self, query: Query) -> MenuOnly:
        return MenuOnly(query)

    def score(self, prepared: Sequence[MenuOnly]) -> list[Scores]:
        return [Scores(self._rule(one.query.prompt.items), float("nan")) for one in prepared]

    def read_adapter(self, upload: Upload) -> Adapter:
        raise Unsupported(self._name, "have adapters")

    def forget(self, digest: str) -> None:
        """Nothing is cached."""

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        raise Unsupported(self._name, "generate text")

    def files(self) -> list[Path]:
        raise Unsupported(self._name, "be downloaded: it has no weights")
