"""Token ids of prompts and labels, always found in context.

A label's ids are those that appear when it is written after the prompt's last characters, never those of the bare
text: `tokenizer("A")` may be " A", or two ids, or start with a begin mark. The same goes for the cut between prefix and
suffix: it is checked at load that reading the halves apart gives the ids of the whole.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from potluck.common.v1 import common_pb2
from potluck.decoder import trie
from potluck_policy_server.errors import LabelsUnsupported
from potluck_policy_server.lm.encoding import Ids, encoder, remembered
from potluck_policy_server.lm.prompts import EXAMPLES, Cut, Template


class Reader:
    """One tokenizer under one template."""

    def __init__(self, tokenizer: Any, template: Template) -> None:
        self.template = template
        self._ids = encoder(tokenizer.backend_tokenizer)
        self._unknown: int | None = tokenizer.unk_token_id
        self._begin = _begin_ids(tokenizer, template)
        self._prefix = remembered(self._read_prefix, 256, 1 << 14)
        self._label = remembered(self._read_label, 4096, 1 << 8)
        for prompt in EXAMPLES:
            self._check_cut(template.render(prompt))
        self._terminator = self._seen_terminator()

    def ids(self, text: str) -> Ids:
        """Ids of a text, without begin or end marks."""
        return self._ids(text)

    def prefix_ids(self, prefix: str) -> Ids:
        """Ids of a prefix, after the tokenizer's begin mark if it has one."""
        return self._prefix(prefix)

    def paths(self, items: Sequence[common_pb2.Item]) -> tuple[Ids, ...]:
        """Each label's tokens after the prompt; labels that are the start of others are ended by the terminator."""
        labels = [self.template.label(item) for item in items]
        paths = [self._label(label) for label in labels]
        if len(set(paths)) < len(paths):
            raise LabelsUnsupported(f"two of the labels {', '.join(labels)} read the same to this tokenizer")
        if starts := trie.starts(paths):
            paths = [self._label(f"{label}{self._terminator}") if path in starts else path
                     for label, path in zip(labels, paths, strict=True)]  # fmt: skip
        try:
            trie.build(tuple(paths))
        except ValueError:
            raise LabelsUnsupported(f"of the labels {', '.join(labels)} one is the start of another") from None
        return tuple(paths)

    def single(self, label: str) -> int | None:
        """The one token of a label in context, or None."""
        try:
            path = self._label(label)
        except LabelsUnsupported:
            return None
        return path[0] if len(path) == 1 else None

    def _read_label(self, label: str) -> Ids:
        if not label.strip():
            raise LabelsUnsupported("an item has no label under this scheme", "let the env server fill letter and word")
        tail = self.template.tail
        context, whole = self.ids(tail), self.ids(f"{tail}{self.template.label_lead}{label}")
        path = whole[len(context) :]
        if whole[: len(context)] != context or not path:
            raise LabelsUnsupported(f"the label {label!r} melts into the prompt's end for this tokenizer")
        if self._unknown is not None and self._unknown in path:
            raise LabelsUnsupported(f"the label {label!r} is not in this tokenizer's vocabulary")
        return path

    def _seen_terminator(self) -> str:
        """A tokenizer that drops white space needs another end than a line break."""
        start = f"{self.template.tail}{self.template.label_lead}wait"
        bare = self.ids(start)
        for terminator in self.template.terminators:
            ended = self.ids(start + terminator)
            if len(ended) > len(bare) and ended[: len(bare)] == bare and self._unknown not in ended[len(bare) :]:
                return terminator
        return ""

    def _read_prefix(self, prefix: str) -> Ids:
        return self._begin + self.ids(prefix)

    def _check_cut(self, cut: Cut) -> None:
        if self.ids(cut.prefix) + self.ids(cut.suffix) != self.ids(cut.prefix + cut.suffix):
            raise LabelsUnsupported("the cut between rules and state is no token boundary for this tokenizer")
        tail = self.ids(self.template.tail)
        if self.ids(cut.suffix)[-len(tail) :] != tail:
            raise LabelsUnsupported("the prompt's end is no token boundary for this tokenizer")


def letters_in_context(reader: Reader) -> tuple[tuple[str, int], ...]:
    """A..Z with their ids after the prompt; raises LabelsUnsupported unless all are single and distinct."""
    found = [(letter, reader.single(letter)) for letter in string.ascii_uppercase]
    broken = [letter for letter, token in found if token is None]
    if broken:
        raise LabelsUnsupported(f"letters that are not one token after the prompt: {', '.join(broken)}")
    if len({token for _, token in found}) != len(found):
        raise LabelsUnsupported("two letters share one token")
    return tuple((letter, token) for letter, token in found if token is not None)


def _begin_ids(tokenizer: Any, template: Template) -> Ids:
    """The begin mark that the tokenizer puts before a text, unless the template writes it itself."""
    begin = tokenizer.bos_token_id
    if begin is None or (template.before and template.before.startswith(tokenizer.bos_token)):
        return ()
    ids = tokenizer("a").input_ids
    return (begin,) if ids and ids[0] == begin else ()
