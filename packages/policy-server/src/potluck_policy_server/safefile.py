"""Reading a safetensors file from bytes: its header, checked against the bytes that are there."""

import hashlib
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from potluck_policy_server.backbones.base import Floats
from potluck_policy_server.errors import CorruptUpload

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class Entry(NamedTuple):
    """A tensor in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def header(data: bytes) -> tuple[dict[str, Entry], dict[str, Any]]:
    """The tensors and the metadata; raises CorruptUpload where header and bytes do not fit."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        raw = json.loads(data[8 : 8 + length])
        metadata = raw.pop("__metadata__", {})
        tensors = {name: _entry(value, 8 + length) for name, value in raw.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        raise CorruptUpload("the upload is no safetensors file") from None
    for name, entry in tensors.items():
        if entry.dtype not in _BYTES:
            raise CorruptUpload(f"tensor {name!r} has the type {entry.dtype!r}, which adapters never have")
        size = int(np.prod(entry.shape, dtype=np.int64)) * _BYTES[entry.dtype]
        if entry.end - entry.start != size or entry.end > len(data) or entry.start < 8 + length:
            raise CorruptUpload(f"tensor {name!r} does not lie inside the file")
    return tensors, metadata


def content_digest(tensors: Iterable[tuple[str, str, Sequence[int], bytes]]) -> str:
    """sha256 over tensors (name, type, shape, bytes) by name, as `folder.base_digest` writes them."""
    digest = hashlib.sha256()
    for name, dtype, shape, data in sorted(tensors, key=lambda tensor: tensor[0]):
        digest.update(f"{name} {dtype} {'x'.join(map(str, shape))}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def file_content(data: bytes) -> str:
    """`content_digest` of a safetensors file's bytes."""
    entries, _ = header(data)
    return content_digest((name, one.dtype, one.shape, data[one.start : one.end]) for name, one in entries.items())


def tensor_f64(data: bytes, entry: Entry) -> Floats:
    """A copy of one float64 tensor as an array."""
    return np.frombuffer(data[entry.start : entry.end], dtype="<f8").reshape(entry.shape).copy()


def _entry(value: dict[str, Any], offset: int) -> Entry:
    start, end = value["data_offsets"]
    return Entry(str(value["dtype"]), tuple(int(n) for n in value["shape"]), offset + int(start), offset + int(end))
