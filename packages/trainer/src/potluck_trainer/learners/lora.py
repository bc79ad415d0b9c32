"""One LoRA adapter per agent over one frozen causal language model.

The base's tensors exist once; every agent has its own module tree over them, with its own PEFT adapter and its own
AdamW. No adapter is ever switched, so nothing of one agent can be active while another learns, and agents can learn in
threads, or all of them from passes that they share. A step is refused if a gradient lies outside the agent's adapter.
Microbatches change speed and memory, not the update: the loss's weights are fixed for the whole minibatch before.
"""

from __future__ import annotations

import copy
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from potluck.decoder import architecture
from potluck_trainer.config import LearnerConfig
from potluck_trainer.errors import BackboneError, CheckpointError, IsolationError
from potluck_trainer.learners import joint_update
from potluck_trainer.learners.base import (
    Adapter,
    GoOn,
    Sample,
    UpdateReport,
    always,
    canonical_json,
    check_finite,
    derive_seed,
)
from potluck_trainer.learners.menu_model import MenuModel, open_round
from potluck_trainer.learners.packed_round import Entry
from potluck_trainer.learners.passes import PackedDecoder
from potluck_trainer.learners.weights import canonical
from potluck_trainer.losses import Floats

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class LoraTeam:
    """One adapter per agent."""

    needs_tokens = True

    def __init__(
        self,
        folder: Path,
        agents: Sequence[str],
        base_digest: str,
        config: LearnerConfig,
        temperature: float,
        seed: int,
    ) -> None:
        self._agents = tuple(agents)
        quiet: Any = transformers_logging
        quiet.disable_progress_bar()
        causal: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[config.dtype])
        causal.requires_grad_(False)
        causal = causal.to(config.device)
        packed = PackedDecoder(architecture.take(causal)) if architecture.is_plain(causal) else None
        self._config, self._seed = config, seed
        self._learners = {
            agent: LoraLearner(_over_shared_base(causal), packed, agent, base_digest, config, temperature, seed)
            for agent in agents
        }
        self._able = all(learner.menus.reader is not None for learner in self._learners.values())
        if config.joint and not self._able:
            raise BackboneError("learner.joint: transformers reads this backbone, agent by agent; leave it out")
        self._joint = self._able and (config.device != "cpu" if config.joint is None else config.joint)

    @property
    def agents(self) -> tuple[str, ...]:
        return self._agents

    @property
    def jobs(self) -> tuple[tuple[str, ...], ...]:
        return (self._agents,) if self._joint else tuple((agent,) for agent in self._agents)

    def update(self, agent: str, samples: Sequence[Sample], round_number: int, go_on: GoOn = always) -> UpdateReport:
        return self.update_together({agent: samples}, round_number, go_on)[agent]

    def update_together(
        self, samples: Mapping[str, Sequence[Sample]], round_number: int, go_on: GoOn = always
    ) -> dict[str, UpdateReport]:
        if len(samples) > 1 and not self._able:
            return {agent: self.update(agent, own, round_number, go_on) for agent, own in samples.items()}
        torch.set_num_threads(self._config.threads)
        learners = {agent: self._learners[agent] for agent in samples}
        models = [learner.menus for learner in learners.values()]
        return joint_update.update(
            learners, samples, partial(open_round, models), self._config, self._seed, round_number, go_on
        )

    def logp(self, agent: str, samples: Sequence[Sample]) -> Floats:
        return self._learners[agent].logp(samples)

    def export(self, agent: str) -> Adapter:
        return self._learners[agent].export()

    def load_adapter(self, agent: str, config_json: str, weights: bytes) -> None:
        self._learners[agent].load_adapter(config_json, weights)

    def optimiser_state(self, agent: str) -> bytes:
        return self._learners[agent].optimiser_state()

    def load_optimiser_state(self, agent: str, state: bytes) -> None:
        self._learners[agent].load_optimiser_state(state)


class LoraLearner:
    """One agent's adapter and optimiser."""

    def __init__(
        self,
        causal: Any,
        packed: PackedDecoder | None,
        agent: str,
        base_digest: str,
        config: LearnerConfig,
        temperature: float,
        seed: int,
    ) -> None:
        self._agent = agent
        self._base_digest = base_digest
        self._config = config
        self._model = _with_adapter(causal, config, derive_seed(seed, "lora", agent))
        self.menus = MenuModel(self._model, temperature, packed)
        self._own = {name: p for name, p in self._model.named_parameters() if "lora_" in name}
        if not self._own:
            raise BackboneError("no module of the backbone matches learner.targets; name its linear layers")
        self._optimiser = torch.optim.AdamW(self._own.values(), lr=config.lr or 0.0, weight_decay=config.weight_decay)

    def step(self) -> float:
        """An optimiser step; the gradient's norm before clipping. Raises IsolationError and NonFiniteError."""
        for name, parameter in self._model.named_parameters():
            if parameter.grad is not None and name not in self._own:
                raise IsolationError(f"an update of {self._agent} gave {name} a gradient; this is a defect, report it")
        norm = float(torch.nn.utils.clip_grad_norm_(self._own.values(), self._config.max_grad_norm))
        check_finite("the gradient norm", norm, self._agent)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return norm

    def logp(self, samples: Sequence[Sample]) -> Floats:
        """Menu log-probabilities of the present weights."""
        taken = open_round([self.menus], [Entry(0, sample) for sample in samples])
        menu = max(sample.size for sample in samples)
        return joint_update.read(taken, len(samples), menu, self._config, adapted=True, go_on=always)

    def export(self) -> Adapter:
        tensors = get_peft_model_state_dict(self._model)
        contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        weights = canonical(save_tensors(contiguous, metadata={"format": "pt"}))
        return Adapter(self._agent, self._base_digest, self._config_json(), weights)

    def load_adapter(self, config_json: str, weights: bytes) -> None:
        if config_json != self._config_json():
            raise CheckpointError(
                f"{self._agent}: the adapter has another configuration; resume with the run's own settings"
            )
        set_peft_model_state_dict(self._model, load_tensors(weights))

    def optimiser_state(self) -> bytes:
        buffer = io.BytesIO()
        torch.save(self._optimiser.state_dict(), buffer)
        return buffer.getvalue()

    def load_optimiser_state(self, state: bytes) -> None:
        self._optimiser.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))

    def _config_json(self) -> str:
        """PEFT's adapter_config.json, free of paths and in one order."""
        data: dict[str, Any] = self._model.peft_config["default"].to_dict()
        data |= {"base_model_name_or_path": None, "inference_mode": True, "revision": None}
        return canonical_json(json.loads(json.dumps(data, default=lambda value: sorted(value))))


def _over_shared_base(causal: Any) -> Any:
    """A module tree of its own over the very same tensors."""
    shared = {id(tensor): tensor for tensor in (*causal.parameters(), *causal.buffers())}
    return copy.deepcopy(causal, shared)


def _with_adapter(causal: Any, config: LearnerConfig, seed: int) -> Any:
    alpha, layers = config.alpha or 2 * config.rank, _adapted_layers(causal, config)
    targets = _targets(causal, config) if config.targets != "all-linear" or layers else config.targets
    lora = LoraConfig(
        r=config.rank, lora_alpha=alpha, target_modules=targets, layers_to_transform=layers, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        torch.manual_seed(seed)
        return get_peft_model(causal, lora).eval()


def _adapted_layers(causal: Any, config: LearnerConfig) -> list[int] | None:
    count = len(causal.get_decoder().layers)
    if config.top_layers > count:
        raise BackboneError(f"learner.top_layers is {config.top_layers}, the backbone has {count} layers; give fewer")
    return list(range(count - config.top_layers, count)) if config.top_layers else None


def _targets(causal: Any, config: LearnerConfig) -> list[str]:
    """Names of linear layers; PEFT takes its own word for all of them only where all layers are adapted."""
    if config.targets != "all-linear":
        return [part.strip() for part in config.targets.split(",")]
    head = causal.get_output_embeddings()
    modules = causal.get_decoder().named_modules()
    return sorted(
        {name.rsplit(".")[-1] for name, one in modules if isinstance(one, torch.nn.Linear) and one is not head}
    )
