"""What a backbone is to the server.

A backbone answers in two steps, so that one bad request of a merged batch fails alone: `prepare` checks and renders
one decision and may refuse it; `score` computes many prepared decisions together and must not refuse. Both are called
from the one scoring thread. Adapters reach a backbone as checked, immutable `Adapter` objects; where a decision carries
none, the frozen base decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.errors import PolicyServerError

LETTERS = common_pb2.LABEL_SCHEME_LETTERS
WORDS = common_pb2.LABEL_SCHEME_WORDS
MAX_ITEMS = 26
MAX_LABEL = 256
"""Characters of an item's letter or word."""

Floats = NDArray[np.float64]
Scheme: TypeAlias = "common_pb2.LabelScheme.ValueType"
"""Of common.v1.LabelScheme."""


@dataclass(frozen=True, slots=True)
class BackboneOptions:
    """How a backbone is to be loaded; everything but the name has a default."""

    name: str
    threads: int = 1
    """Threads of matrix products."""
    dtype: str = "float32"
    device: str = "cpu"
    context: int = 0
    """Longest prompt in tokens; 0 = the model's own limit."""
    prefix_bytes: int = 256 << 20
    """Memory for the keys and values of rules that were read already."""
    merge_bytes: int = 64 << 20
    """Adapters of a base smaller than this are merged into a private copy of it (float32 only)."""
    pack_bytes: int = 1 << 30
    """Bases smaller than this (in float32) are kept a second time in a layout for fast products (CPU only)."""
    reuse_bytes: int = 256 << 20
    """Memory for the keys and values of states that were read already; 0 = every state is computed whole."""
    deterministic: bool = True
    """A decision's bits depend on nothing else than the decision and its weights."""
    label_mass: bool = True
    samples: int = 16
    """Texts drawn per decision where a remote model lists no log-probabilities."""
    engine: str = "auto"
    """"packed", "peft" or "auto": packed where the architecture is known and agrees with transformers."""


@dataclass(frozen=True, slots=True)
class Description:
    """What Describe says about a backbone."""

    name: str
    kind: pb.BackboneKind.ValueType
    base_digest: str
    label_scheme: Scheme = WORDS
    label_schemes: tuple[Scheme, ...] = (LETTERS, WORDS)
    tokenizer_digest: str = ""
    context_tokens: int = 0
    dtype: str = "float64"
    parameters: int = 0
    generates: bool = False
    letters: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """An immutable adapter: its name is the digest of its bytes."""

    digest: str
    agent: str
    size: int
    payload: Any = field(repr=False)
    """What the backbone made of the upload; never changed afterwards."""
    content: str = ""
    """`safefile.content_digest` of the tensors that the payload holds, taken from the payload itself. The service
    refuses an adapter whose content is not the upload's."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload whose sha256 and base were checked."""

    digest: str
    agent: str
    config: dict[str, Any]
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One decision to be made by the backbone."""

    prompt: common_pb2.Prompt
    adapter: Adapter | None
    temperature: float
    label_scheme: Scheme
    tokens: bool = False


class Prepared(Protocol):
    """A decision that was checked and rendered."""

    @property
    def prompt_digest(self) -> str: ...

    @property
    def prompt_tokens(self) -> int: ...

    def tokens(self) -> pb.Tokens | None:
        """The token ids that are scored; None where there are none."""
        ...


class Scores(NamedTuple):
    """The menu policy of one decision."""

    logprobs: Floats
    """In menu order, at the decision's temperature; exp sums to 1."""
    label_mass: float
    adapter_digest: str = ""
    """Digest of the adapter whose weights computed this, as the engine knows it; empty for the frozen base."""
    source: pb.ScoreSource.ValueType = pb.SCORE_SOURCE_UNSPECIFIED
    """How the probabilities were found; 0 = exactly."""
    samples: int = 0
    """Texts that were sampled for them."""


class Text(NamedTuple):
    """A generated text."""

    text: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int


class Backbone(Protocol):
    """Something that turns menus into distributions."""

    @property
    def description(self) -> Description: ...

    def prepare(self, query: Query) -> Prepared:
        """Checks and renders; raises a PolicyServerError for what it cannot answer."""
        ...

    def score(self, prepared: Sequence[Any]) -> Sequence[Scores | PolicyServerError]:
        """The menu policies of decisions that `prepare` returned, any mix of adapters. An error in a decision's place
        fails the request that it belongs to, and no other."""
        ...

    def read_adapter(self, upload: Upload) -> Adapter:
        """Checks names, shapes and values; raises a PolicyServerError. May run beside scoring."""
        ...

    def forget(self, digest: str) -> None:
        """Drops what was cached for an adapter that is no longer held."""
        ...

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        """Writes text; raises Unsupported where the backbone cannot."""
        ...

    def files(self) -> list[Path]:
        """The files of the base; raises Unsupported where there are none."""
        ...
