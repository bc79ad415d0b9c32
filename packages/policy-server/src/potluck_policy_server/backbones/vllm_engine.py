"""The backbone `vllm:FOLDER-or-hub-id`: a causal language model through vLLM, for GPUs; vLLM is installed by the user.

    potluck-policy serve --backbone vllm:Qwen/Qwen3-4B-Instruct-2507 --dtype bfloat16 --context 4096

A menu costs one request per branching node of its label trie. `SamplingParams.logprob_token_ids` gives the
full-vocabulary log-probabilities of that node's children: restriction to the menu and temperature are applied here, as
in every engine, and the root's sum is the label mass.

vLLM's adapter faults that others have met are designed around: an adapter's name and number are never used twice (it
keys its prefix cache by them; a salt with the digest is added), adapters are loaded from the scoring thread only, so
never beside a running request, loading is read back, and one that leaves a canary's answer as it was is refused.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import (
    LETTERS,
    WORDS,
    Adapter,
    BackboneOptions,
    Description,
    Floats,
    Query,
    Scores,
    Text,
    Upload,
)
from potluck_policy_server.errors import InvalidRequest, UnknownBackbone, WrongWeights
from potluck_policy_server.folder import base_digest, linear_shapes, sent_files

LARGE_BYTES = 2 << 30
"""Bases of this many bytes read letters by default, smaller ones words."""
MAX_RANK = 64
COLDEST, HOTTEST = 0.01, 2.0
"""vLLM would raise lower temperatures to the first without a word; higher ones it refuses."""
LOADED = 8
_CANARY = 1e-6


class VllmBackbone:
    """A base in vLLM. Used by the scoring thread alone, but for `read_adapter`."""

    def __init__(self, folder: Path, options: BackboneOptions, llm: Any) -> None:
        from potluck_policy_server.lm.loading import load_tokenizer
        from potluck_policy_server.lm.reading import Reading

        self._llm, self._folder, self._options = llm, folder, options
        self._linears = linear_shapes(folder)
        self._tokenizer = load_tokenizer(folder, options.name)
        self._reading = Reading(self._tokenizer)
        self._numbers = itertools.count(1)
        self._requests: dict[str, Any] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="potluck-vllm-"))
        scheme = LETTERS if sum(f.stat().st_size for f in folder.glob("*.safetensors")) >= LARGE_BYTES else WORDS
        self.description = Description(
            name=options.name,
            kind=pb.BACKBONE_KIND_CAUSAL_LM,
            base_digest=base_digest(folder),
            label_scheme=scheme if scheme in self._reading.schemes else self._reading.schemes[0],
            label_schemes=self._reading.schemes,
            tokenizer_digest=self._reading.digest,
            context_tokens=int(llm.llm_engine.model_config.max_model_len),
            dtype=options.dtype,
            parameters=sum(out * inner for out, inner in self._linears.values()),
            generates=True,
            letters=self._reading.letters,
        )

    def prepare(self, query: Query) -> Any:
        one = self.description
        decision = self._reading.prepare(query, one.name, one.label_scheme, one.context_tokens - 1)
        if query.adapter is not None:
            self._ready(query.adapter)
        return decision

    def score(self, prepared: Sequence[Any]) -> list[Scores]:
        from potluck.decoder.trie import label_logprobs

        asked = [
            (d.job.adapter, _stem(d.job, node), d.job.trie.first_tokens if node == 0 else _children(d.job, node))
            for d in prepared
            for node in d.job.reads
        ]
        answers = iter(self._next_tokens(asked))
        results = []
        for decision in prepared:
            job = decision.job
            found = {node: next(answers) for node in job.reads}
            branches = [found[branch.node][0] for branch in job.trie.branches]
            served = "|".join(sorted({digest for _, digest in found.values()}))
            mass = float(np.exp(found[0][0]).sum())
            results.append(Scores(label_logprobs(job.trie, branches, decision.temperature), mass, served))
        return results

    def read_adapter(self, upload: Upload) -> Adapter:
        import torch

        from potluck_policy_server.lm import lora

        return lora.read(upload, self._linears, torch.float32, "cpu")

    def forget(self, digest: str) -> None:
        request = self._requests.pop(digest, None)
        if request is not None:
            self._llm.llm_engine.remove_lora(request.lora_int_id)
            shutil.rmtree(request.lora_path, ignore_errors=True)

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        from vllm import SamplingParams

        from potluck_policy_server.lm.generation import prompt_ids

        if request.temperature and not COLDEST <= request.temperature <= HOTTEST:
            message = f"{request.temperature} is not between {COLDEST} and {HOTTEST}, where vLLM samples"
            raise InvalidRequest("temperature", message, "give 0 for the most probable text")
        ids = prompt_ids(self._tokenizer, request, self.description.context_tokens)
        if adapter is not None:
            self._ready(adapter)
        how = SamplingParams(
            max_tokens=request.max_tokens, temperature=request.temperature, seed=request.seed & ((1 << 63) - 1)
        )
        (output,) = self._llm.generate(
            [_asked(ids, adapter)], [how], lora_request=[self._request(adapter)], use_tqdm=False
        )
        wanted = adapter.digest if adapter else ""
        if (used := _used(output)) != wanted:
            raise WrongWeights("vLLM wrote the text with other weights than were asked for", wanted, used)
        one = output.outputs[0]
        reason = "stop" if one.finish_reason == "stop" else "length"
        words = self._tokenizer.decode(list(one.token_ids), skip_special_tokens=True)
        return Text(words, reason, len(ids), len(one.token_ids))

    def files(self) -> list[Path]:
        return sent_files(self._folder)

    def _ready(self, adapter: Adapter) -> None:
        """Loads an adapter under a name and number of its own, and proves that it acts."""
        if adapter.digest in self._requests:
            return
        from vllm.lora.request import LoRARequest

        folder = self._scratch / adapter.digest
        _write(folder, adapter)
        number = next(self._numbers)
        request = LoRARequest(f"{adapter.agent}@{adapter.digest}", number, str(folder))
        if not self._llm.llm_engine.add_lora(request) or number not in self._llm.llm_engine.list_loras():
            raise WrongWeights("vLLM did not load the adapter", adapter.digest, "")
        self._requests[adapter.digest] = request
        letters = tuple(token for _, token in self._reading.letters)
        if letters and _changes_something(adapter):
            stem = letters[:4]
            (with_it, _), (without, _) = self._next_tokens([(adapter, stem, letters), (None, stem, letters)])
            if float(np.abs(with_it - without).max()) < _CANARY:
                self.forget(adapter.digest)
                raise WrongWeights("the adapter leaves a canary's answer as the base gives it", adapter.digest, "")

    def _next_tokens(
        self, asked: Sequence[tuple[Adapter | None, tuple[int, ...], tuple[int, ...]]]
    ) -> list[tuple[Floats, str]]:
        """Full-vocabulary log-probabilities of the tokens asked for, and the digest of the adapter that vLLM used."""
        from vllm import SamplingParams

        if not asked:
            return []
        prompts = [_asked(ids, adapter) for adapter, ids, _ in asked]
        how = [SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=list(tokens)) for _, _, tokens in asked]
        loras = [self._request(adapter) for adapter, _, _ in asked]
        outputs = self._llm.generate(prompts, how, lora_request=loras, use_tqdm=False)
        found = []
        for output, (_, _, tokens) in zip(outputs, asked, strict=True):
            table = output.outputs[0].logprobs[0]
            logs = np.array([table[token].logprob for token in tokens], np.float64)
            found.append((logs, _used(output)))
        return found

    def _request(self, adapter: Adapter | None) -> Any:
        return self._requests[adapter.digest] if adapter else None


def load(options: BackboneOptions) -> VllmBackbone:
    """Entry point."""
    name = options.name.partition(":")[2]
    if not name:
        raise UnknownBackbone(
            options.name, registry.known(), "name the model too, as in vllm:Qwen/Qwen3-4B-Instruct-2507"
        )
    try:
        import vllm
    except ImportError:
        why = "vLLM is not installed; it has requirements of its own, so install it into this environment by hand"
        raise UnknownBackbone(options.name, registry.known(), why) from None
    import dataclasses

    from potluck_policy_server.backbones.causal_lm import find_folder
    from potluck_policy_server.lm.loading import check_folder

    folder = find_folder(dataclasses.replace(options, name=name))
    check_folder(folder, options.name)
    llm = vllm.LLM(
        model=str(folder),
        dtype=options.dtype,
        max_model_len=options.context or None,
        enforce_eager=options.device == "cpu",
        enable_lora=True,
        max_lora_rank=MAX_RANK,
        max_loras=LOADED,
        max_cpu_loras=8 * LOADED,
        enable_prefix_caching=True,
        max_logprobs=256,
        logprobs_mode="raw_logprobs",
    )
    return VllmBackbone(folder, options, llm)


def _asked(ids: Sequence[int], adapter: Adapter | None) -> dict[str, Any]:
    """A prompt; the salt keeps adapters' prefixes apart in vLLM's cache."""
    return {"prompt_token_ids": list(ids), "cache_salt": adapter.digest if adapter else "base"}


def _used(output: Any) -> str:
    """Digest of the adapter that vLLM says it has used; empty for the base."""
    request = getattr(output, "lora_request", None)
    return str(request.lora_name.partition("@")[2]) if request else ""


def _children(job: Any, node: int) -> tuple[int, ...]:
    return next(branch.children for branch in job.trie.branches if branch.node == node)


def _stem(job: Any, node: int) -> tuple[int, ...]:
    """The prompt, followed by the label tokens above a branching node."""
    path: list[int] = []
    while node:
        path.append(job.trie.tokens[node - 1])
        node = job.trie.parents[node - 1]
    return (*job.prefix, *job.suffix, *reversed(path))


def _write(folder: Path, adapter: Adapter) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(dict(adapter.payload.config)), "utf-8")
    save_file(dict(adapter.payload.state), folder / "adapter_model.safetensors")


def _changes_something(adapter: Adapter) -> bool:
    return any(bool((pair.b != 0).any()) and bool((pair.a != 0).any()) for pair in adapter.payload.pairs.values())
