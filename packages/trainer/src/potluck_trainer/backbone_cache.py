"""The frozen base, fetched from the policy server, so that a learner trains on exactly what is served.

A folder per base digest. Files arrive beside it and are moved there only once every file's sha256 and the digest over
configuration and tensors are right; a folder already there is checked again before use.

    digest = sha256( config.json canonical + "\\n", then per tensor by name: "<name> <dtype> <shape>\\n" + its bytes )
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO

from potluck.play import PolicyClient
from potluck.policy.v1.policy_service_pb2 import BackboneFile, FetchBackboneRequest
from potluck.rpc.errors import typed_errors
from potluck_trainer.errors import BackboneError
from potluck_trainer.learners.base import canonical_json

_TIMEOUT_S = 3600.0
_BLOCK = 1 << 20


def cache_root() -> Path:
    """`POTLUCK_CACHE`, or the user's cache folder."""
    root = os.environ.get("POTLUCK_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "potluck"
    )
    return Path(root) / "backbones"


async def fetch_backbone(policy: PolicyClient, base_digest: str, root: Path | None = None) -> Path:
    """The folder of the base with this digest."""
    root = root or cache_root()
    folder = root / base_digest
    if folder.is_dir():
        if folder_digest(folder) == base_digest:
            return folder
        shutil.rmtree(folder)
    root.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=root, prefix=".fetching-"))
    try:
        await _download(policy, base_digest, aside)
        found = folder_digest(aside)
        if found != base_digest:
            raise BackboneError(
                f"{policy.address} announced base {base_digest[:16]}… and sent {found[:16]}…; "
                "use trainer and policy server of one version, and try again"
            )
        with contextlib.suppress(OSError):  # another run may have put the same bytes there meanwhile
            os.rename(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    if not folder.is_dir():
        raise BackboneError(f"cannot keep the base in {root}; check the folder's rights and space")
    return folder


async def _download(policy: PolicyClient, base_digest: str, folder: Path) -> None:
    current: BackboneFile | None = None
    sink: BinaryIO | None = None
    sha256 = hashlib.sha256()
    with typed_errors(f"policy server {policy.address}"):
        async for part in policy.stub.FetchBackbone(FetchBackboneRequest(base_digest=base_digest), timeout=_TIMEOUT_S):
            if part.HasField("file"):
                _close(current, sink, sha256.hexdigest())
                current, sha256 = part.file, hashlib.sha256()
                if Path(current.name).name != current.name or current.name in ("", ".", ".."):
                    raise BackboneError(f'the policy server sent a file named "{current.name}"; names have no folders')
                sink = (folder / current.name).open("wb")
            elif sink is None:
                raise BackboneError("the policy server sent bytes before a file name; use servers of one version")
            else:
                sink.write(part.chunk)
                sha256.update(part.chunk)
    _close(current, sink, sha256.hexdigest())


def _close(file: BackboneFile | None, sink: BinaryIO | None, sha256: str) -> None:
    if file is None or sink is None:
        return
    size = sink.tell()
    sink.close()
    if sha256 != file.sha256 or size != file.size:
        raise BackboneError(f"{file.name} arrived damaged ({size} of {file.size} bytes); try again")


def folder_digest(folder: Path) -> str:
    """The base's name from its configuration and weights; a file's split into shards does not matter."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BackboneError(f"{folder} holds no readable config.json; delete the folder and try again") from error
    digest = hashlib.sha256(canonical_json(config).encode() + b"\n")
    tensors: dict[str, tuple[Path, str, list[int], int, int]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        for name, entry in header.items():
            if name != "__metadata__":
                start, end = entry["data_offsets"]
                tensors[name] = (path, entry["dtype"], entry["shape"], 8 + size + start, 8 + size + end)
    for name in sorted(tensors):
        path, dtype, shape, start, end = tensors[name]
        digest.update(f"{name} {dtype} {'x'.join(map(str, shape))}\n".encode())
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                block = file.read(min(_BLOCK, end - start))
                if not block:
                    raise BackboneError(f"{path} is shorter than its header says; delete the folder and try again")
                digest.update(block)
                start += len(block)
    return digest.hexdigest()
