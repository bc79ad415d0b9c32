"""Prompts as token ids, for every engine alike: which label schemes a tokenizer can serve, and decisions rendered."""

from __future__ import annotations

import logging
from typing import Any

from potluck.common.v1 import common_pb2
from potluck.decoder import trie
from potluck_policy_server.backbones.base import LETTERS, WORDS, Query, Scheme
from potluck_policy_server.errors import LabelsUnsupported, PolicyServerError, PromptTooLong
from potluck_policy_server.folder import sha256_hex
from potluck_policy_server.lm.engine import Job
from potluck_policy_server.lm.labels import Reader, letters_in_context
from potluck_policy_server.lm.prompts import letters_template, words_template
from potluck_policy_server.lm.scoring import LmDecision

log = logging.getLogger(__name__)


class Reading:
    """A tokenizer with a reader for every label scheme that it can serve."""

    def __init__(self, tokenizer: Any) -> None:
        self._readers, self.letters = _readers(tokenizer)
        parts = [tokenizer.backend_tokenizer.to_str(), tokenizer.chat_template or ""]
        parts += [reader.template.describe() for reader in self._readers.values()]
        self.digest = sha256_hex("\x00".join(parts).encode())
        """Names the tokenizer and the templates."""

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """At least one."""
        return tuple(self._readers)

    def text(self, prompt: common_pb2.Prompt, scheme: Scheme) -> str:
        """The whole text that a decision's label follows."""
        return "".join(self._readers[scheme].template.render(prompt))

    def prepare(self, query: Query, name: str, default: Scheme, limit: int) -> LmDecision:
        """A decision as token ids; raises LabelsUnsupported and PromptTooLong. `limit` 0 = none."""
        reader = self._readers.get(query.label_scheme or default)
        if reader is None:
            raise LabelsUnsupported(f"{name!r} does not read this label scheme")
        cut = reader.template.render(query.prompt)
        prefix, suffix, paths = reader.prefix_ids(cut.prefix), reader.ids(cut.suffix), reader.paths(query.prompt.items)
        size = len(prefix) + len(suffix) + max(map(len, paths))
        if limit and size > limit:
            raise PromptTooLong(size, limit)
        job = Job(query.adapter, prefix, suffix, trie.build(paths))
        return LmDecision(job, paths, query.temperature, sha256_hex("".join(cut).encode()), query.tokens)


def _readers(tokenizer: Any) -> tuple[dict[Scheme, Reader], tuple[tuple[str, int], ...]]:
    """A reader per scheme that the tokenizer can serve, and the letters' tokens."""
    readers: dict[Scheme, Reader] = {}
    letters: tuple[tuple[str, int], ...] = ()
    try:
        reader = Reader(tokenizer, letters_template(tokenizer))
        letters = letters_in_context(reader)
        readers[LETTERS] = reader
    except LabelsUnsupported as error:
        log.info("no letters scheme: %s", error)
    try:
        readers[WORDS] = Reader(tokenizer, words_template())
    except LabelsUnsupported as error:
        log.info("no words scheme: %s", error)
    if not readers:
        raise PolicyServerError(
            "LABELS_UNSUPPORTED", "this tokenizer can serve no label scheme", "use another backbone"
        )
    return readers, letters
