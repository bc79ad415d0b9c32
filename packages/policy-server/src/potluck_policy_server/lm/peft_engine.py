"""The reference engine: transformers and PEFT as they are, for any causal language model.

Adapters of a batch are mixed through PEFT's `adapter_names`. Rows are whole prompts padded on the right, which no
causal layer can see, so hybrids with recurrent layers work too; a label trie becomes one row per deepest branching
path.
`PeftHost` also serves Generate.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from potluck_policy_server.backbones.base import Adapter
from potluck_policy_server.lm import proof
from potluck_policy_server.lm.engine import Hidden, Job
from potluck_policy_server.lm.lora import Lora

MOST_LOADED = 16
MOST_TOKENS = 8192
BASE = "__base__"


class PeftHost:
    """A transformers model that takes adapters on demand. Used by the scoring thread alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._peft: Any = None
        self._loaded: OrderedDict[str, str] = OrderedDict()

    def name(self, adapter: Adapter | None) -> str:
        """PEFT's name of an adapter, loaded if need be."""
        if adapter is None:
            return BASE
        name = f"d{adapter.digest[:24]}"
        if name not in self._loaded:
            self._load(name, adapter.payload)
        self._loaded[name] = adapter.digest
        self._loaded.move_to_end(name)
        return name

    def digest(self, name: str) -> str:
        """Whose weights PEFT holds under a name."""
        return "" if name == BASE else self._loaded[name]

    def shrink(self) -> None:
        """Unloads what was used least recently beyond the limit; one must stay, or PEFT forgets its base."""
        while len(self._loaded) > MOST_LOADED:
            name, _ = self._loaded.popitem(last=False)
            self._peft.delete_adapter(name)

    def names(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The keyword that mixes adapters in a batch; none while no adapter was ever loaded."""
        return {} if self._peft is None else {"adapter_names": list(names)}

    @property
    def entry(self) -> Any:
        """What to call: the wrapped model once there is one."""
        return self.model if self._peft is None else self._peft

    def forget(self, digest: str) -> None:
        """Unloads an adapter that is no longer held."""
        name = f"d{digest[:24]}"
        if name in self._loaded and len(self._loaded) > 1:
            del self._loaded[name]
            self._peft.delete_adapter(name)

    def _load(self, name: str, lora: Lora) -> None:
        from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

        settings = dict(lora.config)
        config: Any = LoraConfig(**{**_known(LoraConfig, settings), "inference_mode": True})
        if self._peft is None:
            self._peft = get_peft_model(self.model, config, adapter_name=name, autocast_adapter_dtype=False)
        else:
            self._peft.add_adapter(name, config, autocast_adapter_dtype=False)
        set_peft_model_state_dict(self._peft, dict(lora.state), adapter_name=name)
        proof.check_loaded(self._peft, name, lora)
        self._peft.eval()


class _Line(NamedTuple):
    job: int
    ids: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    """(place among the job's reads, position in ids)."""


class PeftEngine:
    """Hidden states from whole prompts."""

    def __init__(self, host: PeftHost) -> None:
        self._host = host

    def ready(self, adapter: Adapter | None) -> None:
        self._host.name(adapter)

    @torch.inference_mode()
    def hidden(self, jobs: Sequence[Job]) -> list[Hidden]:
        lines = [line for number, job in enumerate(jobs) for line in _lines(number, job)]
        lines.sort(key=lambda line: len(line.ids))
        found: list[dict[int, Tensor]] = [{} for _ in jobs]
        served = [""] * len(jobs)
        for chunk in _chunks(lines):
            names = [self._host.name(jobs[line.job].adapter) for line in chunk]
            states = self._forward(chunk, names)
            for line, name in zip(chunk, names, strict=True):
                served[line.job] = self._host.digest(name)
            for row, line in enumerate(chunk):
                for place, position in line.reads:
                    found[line.job][place] = states[row, position]
        self._host.shrink()
        stacked = [torch.stack([states[place] for place in sorted(states)]) for states in found]
        return [Hidden(states, digest) for states, digest in zip(stacked, served, strict=True)]

    def forget(self, digest: str) -> None:
        self._host.forget(digest)

    def _forward(self, lines: Sequence[_Line], names: Sequence[str]) -> Tensor:
        length = max(len(line.ids) for line in lines)
        ids = torch.tensor([list(line.ids) + [0] * (length - len(line.ids)) for line in lines])
        device = self._host.model.device
        with _last_hidden(self._host.model) as states:
            # As a tensor: given a number, Gemma 4 drops all other positions before its last layers.
            keep = {"logits_to_keep": torch.tensor([length - 1], device=device), "use_cache": False}
            self._host.entry(input_ids=ids.to(device), **keep, **self._host.names(names))
        return states[0]


def _known(kind: type[Any], settings: dict[str, Any]) -> dict[str, Any]:
    """What this version of PEFT understands; read_adapter has refused whatever would change the meaning."""
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return {key: value for key, value in settings.items() if key in names}


@contextlib.contextmanager
def _last_hidden(model: Any) -> Iterator[list[Tensor]]:
    """Catches the decoder's last hidden states on the way to the head."""
    caught: list[Tensor] = []
    decoder = model.get_decoder()
    handle = decoder.register_forward_hook(lambda _module, _inputs, output: caught.append(output.last_hidden_state))
    try:
        yield caught
    finally:
        handle.remove()


def _lines(number: int, job: Job) -> Iterator[_Line]:
    """One row per deepest branching path; a node shared by two rows is read from the first."""
    paths: dict[int, tuple[int, ...]] = {0: ()}
    for index, (token, parent) in enumerate(zip(job.trie.tokens, job.trie.parents, strict=True)):
        paths[index + 1] = (*paths[parent], token)
    leaves = set(paths) - set(job.trie.parents) if job.trie.tokens else {0}
    start, read = len(job.prefix) + len(job.suffix) - 1, set[int]()
    places = {node: place for place, node in enumerate(job.reads)}
    for leaf in sorted(leaves):
        own = [node for node, path in paths.items() if path == paths[leaf][: len(path)] and node in places]
        reads = tuple((places[node], start + len(paths[node])) for node in own if node not in read)
        read.update(own)
        yield _Line(number, job.prefix + job.suffix + paths[leaf], reads)


def _chunks(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    chunk: list[_Line] = []
    for line in lines:
        if chunk and (len(chunk) + 1) * len(line.ids) > MOST_TOKENS:
            yield chunk
            chunk = []
        chunk.append(line)
    if chunk:
        yield chunk
