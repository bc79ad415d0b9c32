"""The backbone `tabular`: a softmax table per agent over (state key, action key), the yardstick without language.

    P(item) = softmax over the offered items of table[state_key, action_key] / T

Items of one class share their logit; a state or class that the table does not know has logit 0, and so has the frozen
base everywhere. An adapter is the table: a safetensors file with one tensor `logits` [rows, columns] of float64, its
metadata `rows` and `columns` (JSON lists of keys), and the config {"kind":"table"}.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from potluck.decoder.trie import log_softmax
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones.base import (
    Adapter,
    BackboneOptions,
    Description,
    Floats,
    Query,
    Scores,
    Text,
    Upload,
)
from potluck_policy_server.backbones.fixed import MenuOnly
from potluck_policy_server.errors import CorruptUpload, InvalidRequest, Unsupported
from potluck_policy_server.folder import sha256_hex
from potluck_policy_server.safefile import content_digest, header, tensor_f64

BASE_DIGEST = sha256_hex(b"potluck table v1\n")


@dataclass(frozen=True, slots=True)
class Table:
    """Logits by state and action class."""

    rows: dict[str, int]
    columns: dict[str, int]
    logits: Floats

    def content(self) -> str:
        """Content digest of what is held."""
        return content_digest([("logits", "F64", self.logits.shape, self.logits.astype("<f8").tobytes())])

    def item_logits(self, state: str, actions: Sequence[str]) -> Floats:
        """One logit per offered item."""
        row = self.rows.get(state)
        if row is None:
            return np.zeros(len(actions))
        known = self.logits[row]
        return np.array([known[self.columns[action]] if action in self.columns else 0.0 for action in actions])


class TabularBackbone:
    """Tables as adapters of an empty base."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.description = Description(name=name, kind=pb.BACKBONE_KIND_TABLE, base_digest=BASE_DIGEST)

    def prepare(self, query: Query) -> MenuOnly:
        return MenuOnly(query)

    def score(self, prepared: Sequence[MenuOnly]) -> list[Scores]:
        return [self._score(one.query) for one in prepared]

    def read_adapter(self, upload: Upload) -> Adapter:
        if upload.config.get("kind") != "table":
            raise InvalidRequest(
                "config_json", 'a table\'s config is {"kind":"table"}', "see the README of the package"
            )
        table = read_table(upload.data)
        return Adapter(upload.digest, upload.agent, len(upload.data), table, table.content())

    def forget(self, digest: str) -> None:
        """Nothing is cached."""

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        raise Unsupported(self._name, "generate text")

    def files(self) -> list[Path]:
        raise Unsupported(self._name, "be downloaded: its base is empty")

    def _score(self, query: Query) -> Scores:
        items, digest = query.prompt.items, ""
        logits: Floats = np.zeros(len(items))
        if query.adapter is not None:
            table: Table = query.adapter.payload
            logits = table.item_logits(query.prompt.state_key, [item.action_key for item in items])
            digest = query.adapter.digest
        return Scores(log_softmax(logits / query.temperature), float("nan"), digest)


def read_table(data: bytes) -> Table:
    """A table from its safetensors bytes; raises for anything else."""
    tensors, metadata = header(data)
    if set(tensors) != {"logits"} or tensors["logits"].dtype != "F64" or len(tensors["logits"].shape) != 2:
        raise InvalidRequest("chunk", 'a table holds one tensor "logits" of float64 with two dimensions')
    rows, columns = _keys(metadata, "rows"), _keys(metadata, "columns")
    shape = tensors["logits"].shape
    if shape != (len(rows), len(columns)):
        raise InvalidRequest("chunk", f"logits are {shape}, but there are {len(rows)} rows and {len(columns)} columns")
    logits = tensor_f64(data, tensors["logits"])
    if not np.isfinite(logits).all():
        raise InvalidRequest("chunk", "the table holds a value that is not finite", "check the learner for divergence")
    return Table(rows, columns, logits)


def _keys(metadata: dict[str, Any], name: str) -> dict[str, int]:
    try:
        keys = json.loads(metadata[name])
    except (KeyError, ValueError):
        raise CorruptUpload(f"the table's metadata has no readable {name!r}") from None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys) or len(set(keys)) != len(keys):
        raise InvalidRequest("chunk", f"metadata {name!r} must be a JSON list of distinct texts")
    return {key: index for index, key in enumerate(keys)}


def load(options: BackboneOptions) -> TabularBackbone:
    """Entry point."""
    return TabularBackbone(options.name)
