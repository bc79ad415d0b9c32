"""Canonical safetensors bytes: the library writes metadata in random order, and a digest needs one order."""

from __future__ import annotations

import json
from typing import Any


def canonical(weights: bytes) -> bytes:
    """The same tensors and metadata with a header in sorted order."""
    header, data = header_of(weights), weights[8 + int.from_bytes(weights[:8], "little") :]
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def header_of(weights: bytes) -> dict[str, Any]:
    size = int.from_bytes(weights[:8], "little")
    header: dict[str, Any] = json.loads(weights[8 : 8 + size])
    return header
