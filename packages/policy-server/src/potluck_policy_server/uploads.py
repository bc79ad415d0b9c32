"""Receiving an adapter: a header, then chunks, checked against what the header announced."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError
from potluck_policy_server.adapters import adapter_digest, check_agent
from potluck_policy_server.backbones.base import Upload
from potluck_policy_server.errors import CorruptUpload, InvalidRequest, Overloaded, WrongBase

CHUNK = 1 << 20
HEARD_OUT = 256 << 20
"""Bytes of a refused upload that are still taken in."""
HEARD_OUT_S = 10.0


async def receive(requests: AsyncIterator[pb.PublishAdapterRequest], base_digest: str, most: int) -> Upload:
    """The upload, whole and right, or a typed error.

    A refused upload is heard to its end, up to a bound, and thrown away: a client in grpc.aio that writes while the
    call ends loses the refusal and its reason (grpc/grpc#36066).
    """
    try:
        return await _receive(requests, base_digest, most)
    except PotluckError:
        await _hear_out(requests)
        raise


async def _hear_out(requests: AsyncIterator[pb.PublishAdapterRequest]) -> None:
    left = HEARD_OUT
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HEARD_OUT_S):
            async for request in requests:
                left -= request.ByteSize()
                if left < 0:
                    return


async def _receive(requests: AsyncIterator[pb.PublishAdapterRequest], base_digest: str, most: int) -> Upload:
    header: pb.AdapterHeader | None = None
    config: dict[str, Any] = {}
    data, digest = bytearray(), hashlib.sha256()
    async for request in requests:
        if request.WhichOneof("part") == "header":
            if header is not None:
                raise InvalidRequest("header", "an upload has one header")
            header = request.header
            config = _checked(header, base_digest, most)
            continue
        if header is None:
            raise InvalidRequest("header", "the header must come before the chunks")
        if len(request.chunk) > CHUNK:
            raise InvalidRequest("chunk", f"a chunk of {len(request.chunk)} bytes", f"send at most {CHUNK} at once")
        data += request.chunk
        digest.update(request.chunk)
        if len(data) > header.size:
            raise CorruptUpload(f"more bytes came than the {header.size} announced")
    if header is None:
        raise InvalidRequest("header", "the upload is empty")
    check_bytes(header, len(data), digest.hexdigest())
    name = adapter_digest(base_digest, config, digest.hexdigest())
    return Upload(name, header.agent, config, bytes(data))


def check_bytes(header: pb.AdapterHeader, size: int, sha256: str) -> None:
    """Raises CorruptUpload unless the bytes that came are the announced ones."""
    if size != header.size:
        raise CorruptUpload(f"{size} bytes came, {header.size} were announced")
    if sha256 != header.sha256.lower():
        raise CorruptUpload(f"the bytes hash to {sha256}, not to the announced {header.sha256!r}")


def check_base(header: pb.AdapterHeader, base_digest: str) -> None:
    """Raises WrongBase for an adapter that was trained on another base."""
    if header.base_digest != base_digest:
        raise WrongBase(header.base_digest, base_digest)


def _checked(header: pb.AdapterHeader, base_digest: str, most: int) -> dict[str, Any]:
    check_agent(header.agent)
    check_base(header, base_digest)
    if header.size > most:
        cure = "train a smaller rank, or start the server with a larger --adapter-memory"
        raise Overloaded(f"an adapter of {header.size} bytes can never fit into {most}", cure)
    try:
        config = json.loads(header.config_json)
    except ValueError:
        raise InvalidRequest("config_json", "is not JSON") from None
    if not isinstance(config, dict):
        raise InvalidRequest("config_json", "is not a JSON object")
    return config
