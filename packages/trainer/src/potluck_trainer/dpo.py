"""Direct preference optimisation of one agent's adapter on contrast pairs, with TRL.

Pairs come from `potluck-audit blame`: a prompt that the agent had, a better answer and a worse one. Training starts
from the agent's adapter, and the reference is that adapter as it was (TRL keeps a frozen copy of it): the pull is
towards the policy that played, not towards the base. Only LoRA weights move. TRL adds an end-of-text token to plain
answers and to chat answers what the tokenizer's template adds, so a step also moves what the menu policy never reads.

TRL, `datasets` and torch are imported when training begins: everything else works without the extra.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from potluck_trainer.backbone_cache import folder_digest
from potluck_trainer.checkpoints import CONFIG_NAME, WEIGHTS_NAME
from potluck_trainer.config import Frozen
from potluck_trainer.errors import ConfigError, NonFiniteError, RecordError
from potluck_trainer.learners.base import Adapter
from potluck_trainer.records.writer import write_atomic

COLUMNS = ("prompt", "chosen", "rejected")


class DpoConfig(Frozen):
    """How preferences become weights."""

    beta: float = Field(default=0.1, gt=0)
    """Strength of the pull towards the starting adapter."""
    lr: float = Field(default=2e-5, gt=0)
    """Learning rate."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the pairs."""
    batch: int = Field(default=8, ge=1)
    """Pairs an optimiser step."""
    seed: int = Field(default=0, ge=0)
    """Order of the pairs."""
    device: str = "cpu"
    """`cpu` or `cuda`."""


@dataclass(frozen=True, slots=True)
class DpoReport:
    """What one agent's training did."""

    agent: str
    pairs: int
    steps: int
    loss_first: float
    loss_last: float
    accuracy: float
    """Share of pairs of the last logged batch whose better answer gained more against the reference."""
    adapter: str
    """Digest."""


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """Rows of `pairs.jsonl`. Raises RecordError for a file that is none."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read as JSON lines ({error}); give a blame's pairs.jsonl") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or any(name not in row for name in (*COLUMNS, "agent", "policy")):
            raise RecordError(f"{path}:{number} lacks one of {', '.join(COLUMNS)}, agent, policy; run the blame again")
    return rows


def own_rows(rows: Sequence[Mapping[str, Any]], agent: str, digest: str) -> list[dict[str, Any]]:
    """The agent's pairs, made by the adapter that training starts from. Raises ConfigError."""
    own = [row for row in rows if row["agent"] == agent]
    if not own:
        known = ", ".join(sorted({row["agent"] for row in rows})) or "nobody"
        raise ConfigError(f"there is no pair of {agent}; the file has pairs of {known}")
    if foreign := [row for row in own if row["policy"] != digest]:
        raise ConfigError(
            f"{len(foreign)} pairs of {agent} were made by {foreign[0]['policy'][:16]}…, not by the adapter "
            f"{digest[:16]}… that training starts from; blame the evaluation of this checkpoint"
        )
    return [{name: row[name] for name in COLUMNS} for row in own]


def train_dpo(base: Path, start: Adapter, rows: Sequence[Mapping[str, Any]], config: DpoConfig, out: Path) -> DpoReport:
    """Trains and writes `out/AGENT/<digest>/`, which `potluck eval --teams adapters:OUT` plays.

    Raises ConfigError without the extra, or where the base is another one than the adapter's.
    """
    trl, datasets = _libraries()
    if folder_digest(base) != start.base_digest:
        raise ConfigError(f"{base} is not the base that the adapter was trained on; give the run's backbone")
    import torch
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
    from safetensors.torch import load as load_tensors
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(config.seed)
    causal: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = {k: v for k, v in json.loads(start.config_json).items() if v is not None}
    configs: Any = LoraConfig
    model: Any = get_peft_model(causal, configs.from_peft_type(**settings | {"inference_mode": False}))
    set_peft_model_state_dict(model, load_tensors(start.weights))
    arguments = trl.DPOConfig(
        output_dir=str(out / ".trl"), beta=config.beta, learning_rate=config.lr, num_train_epochs=config.epochs,
        per_device_train_batch_size=config.batch, seed=config.seed, report_to=[], save_strategy="no", logging_steps=1,
        max_length=None, use_cpu=config.device == "cpu", disable_tqdm=True, bf16=False,
        gradient_checkpointing=False, lr_scheduler_type="constant",
    )  # fmt: skip
    trainer = trl.DPOTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([dict(row) for row in rows]),
        processing_class=AutoTokenizer.from_pretrained(base),
    )
    trainer.train()
    logs = [line for line in trainer.state.log_history if "loss" in line]
    adapter = _exported(model, start)
    write_adapter(adapter, out / start.agent / adapter.digest)
    losses = [float(line["loss"]) for line in logs]
    if not all(loss == loss and abs(loss) != float("inf") for loss in losses):
        raise NonFiniteError(f"{start.agent}: the loss is {losses}; lower --lr")
    accuracy = float(logs[-1].get("rewards/accuracies", 0.0))
    return DpoReport(start.agent, len(rows), len(logs), losses[0], losses[-1], accuracy, adapter.digest)


def _libraries() -> tuple[Any, Any]:
    try:
        return importlib.import_module("trl"), importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(
            f"{error.name} is not installed; pip install 'potluck-trainer[trl]', or in the workspace "
            "uv sync --all-packages --extra trl"
        ) from error


def _exported(model: Any, start: Adapter) -> Adapter:
    """The trained weights under the starting adapter's own configuration."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save as save_tensors

    from potluck_trainer.learners.weights import canonical

    tensors = get_peft_model_state_dict(model, adapter_name="default")
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    weights = canonical(save_tensors(contiguous, metadata={"format": "pt"}))
    return Adapter(start.agent, start.base_digest, start.config_json, weights)


def write_adapter(adapter: Adapter, folder: Path) -> None:
    """A PEFT folder."""
    write_atomic(folder / CONFIG_NAME, adapter.config_json.encode())
    write_atomic(folder / WEIGHTS_NAME, adapter.weights)
