"""Any causal language model of transformers, from a folder or a hub id, with LoRA adapters in PEFT's format."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from potluck.common.v1 import common_pb2
from potluck.decoder import architecture
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones import gguf_files, registry
from potluck_policy_server.backbones.base import (
    LETTERS,
    WORDS,
    Adapter,
    BackboneOptions,
    Description,
    Query,
    Scheme,
    Scores,
    Text,
    Upload,
)
from potluck_policy_server.errors import InvalidRequest, UnknownBackbone
from potluck_policy_server.folder import base_digest, has_weights, sent_files
from potluck_policy_server.lm import lora
from potluck_policy_server.lm.check import independent, worst_difference
from potluck_policy_server.lm.engine import Engine, EngineOptions, PackedEngine
from potluck_policy_server.lm.generation import generate
from potluck_policy_server.lm.loading import check_vocabulary, load_model, load_tokenizer
from potluck_policy_server.lm.packed import PackedDecoder
from potluck_policy_server.lm.peft_engine import PeftEngine, PeftHost
from potluck_policy_server.lm.reading import Reading
from potluck_policy_server.lm.scoring import Head, LmDecision, Scorer

LARGE = 1_000_000_000
"""Backbones of this many parameters read letters by default, smaller ones words."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Largest difference of log-probabilities between the packed forward and transformers' that is rounding.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3, "float16": 0.1}

log = logging.getLogger(__name__)


class CausalLm:
    """A frozen base, its tokenizer, and the engine that scores menus."""

    def __init__(self, folder: Path, options: BackboneOptions, scheme: Scheme | None = None) -> None:
        from transformers.utils import logging as transformers_logging

        if options.dtype not in DTYPES:
            raise InvalidRequest("dtype", f"{options.dtype!r} is none of {', '.join(DTYPES)}")
        self._options, self._folder, self._dtype = options, folder, DTYPES[options.dtype]
        torch.set_num_threads(options.threads)
        quiet: Any = transformers_logging
        quiet.disable_progress_bar()
        self._tokenizer = load_tokenizer(folder, options.name)
        model = load_model(folder, options.name, self._dtype)
        check_vocabulary(options.name, self._tokenizer, model)
        model.to(options.device)
        self._model = model
        self._linears = _linears(model)
        self._host = PeftHost(model)
        self._engine = self._choose_engine()
        config = model.config.get_text_config()
        weight, cap = model.get_output_embeddings().weight.detach(), getattr(config, "final_logit_softcapping", None)
        head = Head(weight, cap, options.label_mass and architecture.fits(model, options.pack_bytes))
        self._scorer = Scorer(self._engine, head, options.label_mass)
        self._reading = Reading(self._tokenizer)
        self.description = self._describe(config, scheme)

    @property
    def folder(self) -> Path:
        """Where the base lies."""
        return self._folder

    def text(self, prompt: common_pb2.Prompt) -> str:
        """The whole text that a decision's label follows, under the backbone's own label scheme."""
        return self._reading.text(prompt, self.description.label_scheme)

    def prepare(self, query: Query) -> LmDecision:
        one = self.description
        decision = self._reading.prepare(query, one.name, one.label_scheme, one.context_tokens)
        self._engine.ready(query.adapter)
        return decision

    def score(self, prepared: Sequence[LmDecision]) -> list[Scores]:
        return self._scorer.score(prepared)

    def read_adapter(self, upload: Upload) -> Adapter:
        return lora.read(upload, self._linears, self._dtype, self._options.device)

    def forget(self, digest: str) -> None:
        self._engine.forget(digest)
        self._host.forget(digest)

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        return generate(self._host, self._tokenizer, request, adapter, self.description.context_tokens)

    def files(self) -> list[Path]:
        return sent_files(self._folder)

    def _choose_engine(self) -> Engine:
        name = self._options.engine
        if name == "peft" or (name == "auto" and not architecture.is_plain(self._model)):
            return PeftEngine(self._host)
        if not architecture.is_plain(self._model):
            raise InvalidRequest("engine", f"the packed engine does not know {type(self._model).__name__}", "use peft")
        packed = PackedDecoder(architecture.take(self._model, self._options.pack_bytes), self._options.deterministic)
        worst = worst_difference(packed, self._model)
        if worst > TOLERANCE[self._options.dtype]:
            log.warning("packed forward differs from transformers' by %.2g; using transformers", worst)
            return PeftEngine(self._host)
        return PackedEngine(packed, self._engine_options(packed))

    def _engine_options(self, packed: PackedDecoder) -> EngineOptions:
        one = self._options
        alone = one.deterministic and not independent(packed)
        if alone:
            log.warning("rows depend on each other on this machine; each decision is computed alone")
        return EngineOptions(
            prefix_bytes=one.prefix_bytes,
            reuse_bytes=0 if alone else one.reuse_bytes,
            merge=packed.decoder.merges(one.merge_bytes),
            alone=alone,
        )

    def _describe(self, config: Any, default: Scheme | None) -> Description:
        parameters = sum(p.numel() for p in self._model.parameters())
        scheme = default or (LETTERS if parameters >= LARGE else WORDS)
        limit = int(getattr(config, "max_position_embeddings", 0) or 0)
        context = min(filter(None, (limit, self._options.context)), default=0)
        return Description(
            name=self._options.name,
            kind=pb.BACKBONE_KIND_CAUSAL_LM,
            base_digest=base_digest(self._folder),
            label_scheme=scheme if scheme in self._reading.schemes else self._reading.schemes[0],
            label_schemes=self._reading.schemes,
            tokenizer_digest=self._reading.digest,
            context_tokens=context,
            dtype=self._options.dtype,
            parameters=parameters,
            generates=True,
            letters=self._reading.letters,
        )


def load(options: BackboneOptions) -> CausalLm:
    """Loads a folder or, through the hub's own client, a hub id."""
    return CausalLm(find_folder(options), options)


def load_folder(folder: Path, options: BackboneOptions, scheme: Scheme | None = None) -> CausalLm:
    """Loads a folder under the name that the options give."""
    return CausalLm(folder, options, scheme)


def find_folder(options: BackboneOptions) -> Path:
    """The folder that a name stands for, downloaded if it is a hub id; raises UnknownBackbone."""
    folder = Path(options.name).expanduser()
    if folder.is_file() and folder.suffix == gguf_files.SUFFIX:
        return gguf_files.converted(folder)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        try:
            patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
            folder = Path(snapshot_download(options.name, allow_patterns=patterns))
        except Exception as error:
            why = (
                f"the hub did not give it ({type(error).__name__}); is it reachable, is a licence to be accepted there?"
            )
            raise UnknownBackbone(options.name, registry.known(), why) from error
    if not has_weights(folder):
        raise UnknownBackbone(options.name, registry.known(), "the folder has no config.json and safetensors files")
    return folder


def _linears(model: Any) -> dict[str, tuple[int, int]]:
    head = model.get_output_embeddings()
    return {
        name: (module.out_features, module.in_features)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }
