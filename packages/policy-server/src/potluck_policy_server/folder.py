"""The base as a folder: its digest and the files that FetchBackbone sends.

    digest = sha256( config.json canonical + "\\n"
                     then for every tensor by name: "<name> <dtype> <shape>\\n" + its bytes as stored )

dtype is safetensors' name ("F32", "BF16"), the shape is joined by "x". Canonical JSON has sorted keys and no spaces.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = 1 << 20
_NO_LINEAR = ("embed_tokens.weight", "lm_head.weight", "wte.weight", "wpe.weight")
_SENT = (".json", ".safetensors", ".jinja", ".txt", ".model")


class _Tensor(NamedTuple):
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256_hex(data: bytes) -> str:
    """sha256 as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def base_digest(folder: Path) -> str:
    """Names the base by its configuration and weights; a file's split into shards does not matter."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    digest = hashlib.sha256(canonical(config).encode() + b"\n")
    tensors = _tensors(folder)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {'x'.join(map(str, tensor.shape))}\n".encode())
        _hash_range(digest, tensor)
    return digest.hexdigest()


def sent_files(folder: Path) -> list[Path]:
    """The files that a learner needs, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SENT)


def has_weights(folder: Path) -> bool:
    """True for a folder that `base_digest` can name."""
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def linear_shapes(folder: Path) -> dict[str, tuple[int, int]]:
    """Name -> (out, in) of the matrices that are neither embedding nor output head, as the files name them."""
    return {
        name.removesuffix(".weight"): (tensor.shape[0], tensor.shape[1])
        for name, tensor in _tensors(folder).items()
        if name.endswith(".weight") and len(tensor.shape) == 2 and not name.endswith(_NO_LINEAR)
    }


def _tensors(folder: Path) -> dict[str, _Tensor]:
    found: dict[str, _Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                start, end = entry["data_offsets"]
                found[name] = _Tensor(path, entry["dtype"], tuple(entry["shape"]), 8 + length + start, 8 + length + end)
    return found


def _hash_range(digest: "hashlib._Hash", tensor: _Tensor) -> None:
    with tensor.file.open("rb") as file:
        file.seek(tensor.start)
        left = tensor.end - tensor.start
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise ValueError(f"{tensor.file.name} is shorter than its header says")
            digest.update(block)
            left -= len(block)
