"""Adapters for the checks, made without knowing the backbone: tables by hand, LoRA by what FetchBackbone announces.

For a language model the base's first safetensors header is enough: the first layer's first projection gives a name and
a shape. The download is broken off after the header, so a large base costs a few kilobytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, typed_errors
from potluck_policy_server.conformance.peer import Peer, prompt
from potluck_policy_server.folder import canonical

_RANK = 2
_WEIGHT = re.compile(r"(?P<module>.+\.layers\.0\..+\.(?P<leaf>\w+_proj))\.weight")
PROMPTS = 64


class AdapterFile(NamedTuple):
    """An adapter as it is uploaded."""

    config_json: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def digest(self, base: str) -> str:
        """Its name, by the documented formula."""
        return hashlib.sha256(f"{base}\n{self.config_json}\n{self.sha256}\n".encode()).hexdigest()

    def flipped(self) -> AdapterFile:
        """The same with one bit of its last value turned."""
        return AdapterFile(self.config_json, self.data[:-2] + bytes([self.data[-2] ^ 1]) + self.data[-1:])


async def two_adapters(peer: Peer) -> tuple[AdapterFile, AdapterFile] | None:
    """Two unlike adapters of the served base; None where they cannot be made (see `Plan.adapters`)."""
    if folders := peer.plan.adapters:
        first, second = (_from_folder(folder) for folder in (folders[0], folders[-1]))
        return first, second
    made = await random_adapters(peer, (1, 2))
    return None if made is None else (made[0], made[1])


async def random_adapters(peer: Peer, seeds: Sequence[int]) -> list[AdapterFile] | None:
    """One adapter of the served base for each seed; None where they cannot be made."""
    if peer.described.kind == pb.BACKBONE_KIND_TABLE:
        return [_table(seed) for seed in seeds]
    found = await _projection(peer)
    return None if found is None else [_lora(seed, *found) for seed in seeds]


def _from_folder(folder: Path) -> AdapterFile:
    settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    return AdapterFile(canonical(settings), (folder / "adapter_model.safetensors").read_bytes())


def _table(seed: int) -> AdapterFile:
    prompts = [prompt(number, 26) for number in range(PROMPTS)]
    rows = sorted({one.state_key for one in prompts})
    columns = sorted({item.action_key for one in prompts for item in one.items})
    logits = np.random.default_rng(seed).normal(0, 2, (len(rows), len(columns)))
    metadata = {"rows": json.dumps(rows), "columns": json.dumps(columns)}
    return AdapterFile('{"kind":"table"}', _safetensors({"logits": logits.astype("<f8")}, metadata))


def _lora(seed: int, module: str, leaf: str, shape: tuple[int, int]) -> AdapterFile:
    rng, (out, inner) = np.random.default_rng(seed), shape
    config = {
        "peft_type": "LORA",
        "r": _RANK,
        "lora_alpha": 2 * _RANK,
        "target_modules": [leaf],
        "layers_to_transform": [0],
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    name = f"base_model.model.{module}.lora_{{}}.weight"
    tensors = {
        name.format("A"): rng.normal(0, 1 / np.sqrt(inner), (_RANK, inner)).astype("<f4"),
        name.format("B"): rng.normal(0, 2, (out, _RANK)).astype("<f4"),
    }
    return AdapterFile(canonical(config), _safetensors(tensors, {"format": "pt"}))


def _safetensors(tensors: dict[str, np.ndarray[Any, np.dtype[Any]]], metadata: dict[str, str]) -> bytes:
    kinds, header, body = {"float32": "F32", "float64": "F64"}, {"__metadata__": metadata}, b""
    entries: dict[str, Any] = dict(header)
    for name, value in tensors.items():
        data = value.tobytes()
        entries[name] = {
            "dtype": kinds[str(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + body


async def _projection(peer: Peer) -> tuple[str, str, tuple[int, int]] | None:
    """(module, last part of its name, (out, in)) of a linear layer of the base, from the first file's header."""
    request = pb.FetchBackboneRequest(base_digest=peer.described.base_digest)
    call = peer.client.stub.FetchBackbone(request, timeout=peer.plan.patience_s)
    head, reading = b"", False
    try:
        with typed_errors():
            async for part in call:
                if part.WhichOneof("part") == "file":
                    reading, head = part.file.name.endswith(".safetensors"), b""
                elif reading:
                    head += part.chunk
                    if len(head) >= 8 and len(head) >= 8 + struct.unpack_from("<Q", head)[0]:
                        return _first_projection(head)
    except PotluckError:
        return None
    finally:
        call.cancel()
    return None


def _first_projection(head: bytes) -> tuple[str, str, tuple[int, int]] | None:
    (length,) = struct.unpack_from("<Q", head)
    entries = json.loads(head[8 : 8 + length])
    for name in sorted(entries):
        match, shape = _WEIGHT.fullmatch(name), entries[name].get("shape", ())
        if match and len(shape) == 2:
            return match["module"], match["leaf"], (shape[0], shape[1])
    return None
