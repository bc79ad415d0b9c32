"""A model folder, checked before transformers reads it, and loaded whole or not at all.

transformers fills tensors that it cannot find with random numbers and says so in a warning. A base like that would be
named by the digest of its files and answer with noise, so everything that is missing is an error here.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import torch

from potluck_policy_server.errors import BrokenBase

SERVED = ("F64", "F32", "F16", "BF16")
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<all>\d{5})\.safetensors")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken")
_WHOLE = "copy or download the folder again, with all its files"


def check_folder(folder: Path, name: str) -> None:
    """Raises BrokenBase for missing shards, files that end early, and types that are not served."""
    present = {path.name for path in folder.glob("*.safetensors")}
    if missing := sorted(_expected_files(folder, name, present) - present):
        raise BrokenBase(name, f"{len(missing)} of its files are missing: {', '.join(missing[:4])}", _WHOLE)
    found: set[str] = set()
    for file in sorted(present):
        found |= _check_file(folder / file, name)
    if lost := sorted(set(_index(folder, name)) - found):
        raise BrokenBase(name, f"its index names {lost[0]!r}, which no file holds", _WHOLE)


def load_model(folder: Path, name: str, dtype: torch.dtype) -> Any:
    """The model in evaluation mode without gradients; raises BrokenBase where a tensor is missing, of another shape,
    or not finite."""
    from transformers import AutoModelForCausalLM

    check_folder(folder, name)
    loader: Any = AutoModelForCausalLM
    try:
        model, info = loader.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        why = f"transformers cannot read it ({type(error).__name__}: {str(error)[:200]})"
        raise BrokenBase(
            name, why, "check config.json, and that this version of transformers knows the model"
        ) from error
    for what in ("missing_keys", "mismatched_keys"):
        if keys := sorted(map(str, info.get(what) or ())):
            raise BrokenBase(name, f"{what.replace('_', ' ')}: {', '.join(keys[:4])} ({len(keys)} in all)", _WHOLE)
    model.eval()
    model.requires_grad_(False)
    for key, value in model.named_parameters():
        if not bool(torch.isfinite(value).all()):
            cure = "convert it again; in float16 weights above 65504 overflow, so try --dtype bfloat16"
            raise BrokenBase(name, f"{key} holds a value that is not finite", cure)
    return model


def load_tokenizer(folder: Path, name: str) -> Any:
    """The fast tokenizer; raises BrokenBase where there is none."""
    from transformers import AutoTokenizer

    if not any(next(folder.glob(pattern), None) for pattern in _TOKENIZERS):
        # transformers would make an empty tokenizer out of config.json alone.
        raise BrokenBase(name, "it has no tokenizer files", _WHOLE)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise BrokenBase(name, f"its tokenizer cannot be read ({type(error).__name__})", _WHOLE) from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        cure = "save it with a tokenizer.json (AutoTokenizer with use_fast=True, then save_pretrained)"
        raise BrokenBase(name, "its tokenizer has no fast form", cure)
    return tokenizer


def check_vocabulary(name: str, tokenizer: Any, model: Any) -> None:
    """Raises BrokenBase for a tokenizer that knows tokens for which the model has no embedding."""
    rows, known = int(model.get_input_embeddings().weight.shape[0]), len(tokenizer)
    if known > rows:
        why = f"its tokenizer has {known} tokens, its embedding {rows} rows"
        raise BrokenBase(name, why, "put the model's own tokenizer into the folder")


def _index(folder: Path, name: str) -> dict[str, str]:
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        return {}
    try:
        return {str(key): str(value) for key, value in json.loads(path.read_text("utf-8"))["weight_map"].items()}
    except (ValueError, KeyError, AttributeError):
        raise BrokenBase(name, f"{path.name} cannot be read", _WHOLE) from None


def _expected_files(folder: Path, name: str, present: set[str]) -> set[str]:
    expected = set(_index(folder, name).values())
    for file in present:
        if match := _SHARD.fullmatch(file):
            count = int(match["all"])
            expected |= {f"{match['stem']}-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)}
    return expected


def _check_file(path: Path, name: str) -> set[str]:
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, size)))
            header.pop("__metadata__", None)
            ends = {key: int(entry["data_offsets"][1]) for key, entry in header.items()}
            kinds = {key: str(entry["dtype"]) for key, entry in header.items()}
        except (struct.error, ValueError, KeyError, TypeError, AttributeError, MemoryError):
            raise BrokenBase(name, f"{path.name} is no safetensors file", _WHOLE) from None
    if 8 + length + max(ends.values(), default=0) > size:
        raise BrokenBase(name, f"{path.name} ends before its last tensor", _WHOLE)
    if wrong := sorted(key for key, kind in kinds.items() if kind not in SERVED):
        why = f"{wrong[0]!r} in {path.name} has the type {kinds[wrong[0]]}"
        raise BrokenBase(name, why, f"serve weights in one of {', '.join(SERVED)}; quantised ones are not read")
    return set(kinds)
