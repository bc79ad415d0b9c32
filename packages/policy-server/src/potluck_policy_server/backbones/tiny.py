"""The backbone `tiny`: the embedded default, a small decoder whose weights ship in this package.

It reads the compact `words` prompt. It is a stand-in for a language model on a laptop, not a language model to study.
"""

from importlib.resources import files
from pathlib import Path

from potluck_policy_server.backbones.base import WORDS, BackboneOptions
from potluck_policy_server.backbones.causal_lm import CausalLm, load_folder
from potluck_policy_server.backbones.registry import known
from potluck_policy_server.errors import UnknownBackbone
from potluck_policy_server.folder import has_weights


def folder() -> Path:
    """Where the weights lie."""
    root = Path(str(files("potluck_policy_server") / "tiny"))
    return next((place for place in (root / "weights", root) if has_weights(place)), root)


def load(options: BackboneOptions) -> CausalLm:
    """Entry point."""
    if not has_weights(folder()):
        raise UnknownBackbone(options.name, known(), "its weights are missing from this installation")
    return load_folder(folder(), options, WORDS)
