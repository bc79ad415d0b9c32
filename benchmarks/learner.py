"""Learning from a round: the trainer's update beside the loop that one writes first with PEFT.

    python benchmarks/learner.py
    python benchmarks/learner.py --agents 2 --decisions 16 --dtype bfloat16
    python benchmarks/learner.py --agents 7 --naive-agents 2 --no-naive-top

The decisions are those of random play on the real engines (2 agents: Forced Coordination, 7: Cleanup), in `words`. The
naive loop is one PEFT model with an adapter per agent, `set_adapter`, full prompts padded in minibatches of 8, full
logits, autograd, one AdamW step an epoch. Ours makes the same update, agent by agent or with all agents in the same
passes ("joint"): the last agent's loss before its last step stands beside all. The naive loop's time is a sum over
agents; with `--naive-agents N` it is measured on the last N and scaled, which the table says. Every row is a process
of its own, one thread, timed in CPU seconds from the first pass to the last step; memory is the process's peak above
what it holds with base and adapters loaded.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from peft import LoraConfig, get_peft_model
from real_prompts import real_samples
from torch import Tensor
from transformers import AutoModelForCausalLM

from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_trainer.config import LearnerConfig
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.lora import LoraTeam

GAMES = {2: "overcooked/forced_coordination", 7: "meltingpot/clean_up"}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LR, CLIP, BATCH = 1e-4, 0.2, 8


class Naive:
    """One model, an adapter per agent, one agent after the other."""

    def __init__(self, folder: Path, agents: int, dtype: torch.dtype, top: int) -> None:
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        count = base.config.num_hidden_layers
        layers = list(range(count - top, count)) if top else None
        config = LoraConfig(r=16, lora_alpha=32, target_modules=LINEARS, layers_to_transform=layers)
        torch.manual_seed(0)
        self.model = get_peft_model(base, config, adapter_name="agent_0")
        for number in range(1, agents):
            self.model.add_adapter(f"agent_{number}", config)
        self.own = [
            [p for name, p in self.model.named_parameters() if f".agent_{number}." in name] for number in range(agents)
        ]
        self.optimisers = [torch.optim.AdamW(own, lr=LR, weight_decay=0.0) for own in self.own]
        self.model.eval()

    def update(self, samples: Sequence[Sequence[Sample]], epochs: int) -> float:
        last = 0.0
        for number, own in enumerate(samples):
            self.model.set_adapter(f"agent_{number}")
            for _ in range(epochs):
                last = 0.0
                for start in range(0, len(own), BATCH):
                    loss = self.loss(own[start : start + BATCH]) / len(own)
                    loss.backward()
                    last += loss.item()
                torch.nn.utils.clip_grad_norm_(self.own[number], 1.0)
                self.optimisers[number].step()
                self.optimisers[number].zero_grad(set_to_none=True)
        return last

    def loss(self, batch: Sequence[Sample]) -> Tensor:
        """The clipped loss of the chosen labels, summed."""
        texts = [[*one.prefix, *one.suffix, *one.labels[one.index][:-1]] for one in batch]
        width = max(map(len, texts))
        ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts])
        mask = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in texts])
        logits = self.model(input_ids=ids, attention_mask=mask).logits
        total = torch.zeros(())
        for row, one in enumerate(batch):
            logp, path = torch.zeros(()), one.labels[one.index]
            for depth, token in enumerate(path):
                options = sorted({p[depth] for p in one.labels if p[:depth] == path[:depth] and len(p) > depth})
                at = len(one.prefix) + len(one.suffix) - 1 + depth
                logp = logp + logits[row, at, options].float().log_softmax(-1)[options.index(token)]
            ratio = (logp - one.logprob).exp()
            total = total - torch.min(ratio * one.advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * one.advantage)
        return total


class Ours:
    """The trainer's learner."""

    def __init__(self, folder: Path, agents: int, dtype: str, top: int, memory: int, joint: bool) -> None:
        config = LearnerConfig(
            lr=LR, beta=0.0, dtype=dtype, top_layers=top, agreement=99.0, targets=",".join(LINEARS), pass_memory=memory,
            joint=joint,
        )  # fmt: skip
        self.agents = [f"agent_{number}" for number in range(agents)]
        self.team = LoraTeam(folder, self.agents, "b" * 64, config, 1.0, 0)

    def update(self, samples: Sequence[Sequence[Sample]], epochs: int) -> float:
        assert epochs == LearnerConfig().epochs
        given, reports = dict(zip(self.agents, samples, strict=True)), {}
        for job in self.team.jobs:
            reports |= self.team.update_together({agent: given[agent] for agent in job}, 0)
        return reports[self.agents[-1]].last.loss


def work(args: argparse.Namespace) -> dict[str, float]:
    """One row's measurement, in this process."""
    torch.set_num_threads(1)
    agents, folder = args.agents[0], Path(args.folder)
    samples = real_samples(folder, GAMES[agents], agents, args.decisions)
    top, naive = args.top_layers[0], args.worker == "naive"
    few = min(args.naive_agents or agents, agents) if naive else agents
    samples = samples[agents - few :]
    learner: Any
    if naive:
        learner = Naive(folder, few, getattr(torch, args.dtype), top)
    else:
        learner = Ours(folder, agents, args.dtype, top, args.memory, args.worker == "joint")
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    loss = learner.update(samples, 2)
    seconds = time.process_time() - began
    tokens = [len(one.prefix) + len(one.suffix) for own in samples for one in own]
    prefix = len(samples[0][0].prefix)
    return {
        "seconds": seconds * agents / few,
        "measured": few,
        "peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024,
        "loss": loss,
        "tokens": sum(tokens) / len(tokens),
        "prefix": prefix,
    }


def ask(args: argparse.Namespace, worker: str, agents: int, top: int, folder: str) -> dict[str, float]:
    """A row's measurement, in a process of its own."""
    command = [sys.executable, __file__, "--worker", worker, "--agents", str(agents), "--top-layers", str(top)]
    command += ["--decisions", str(args.decisions), "--dtype", args.dtype, "--memory", str(args.memory)]
    command += ["--naive-agents", str(args.naive_agents)]
    out = subprocess.run([*command, "--folder", folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 7], choices=sorted(GAMES))
    parser.add_argument("--decisions", type=int, default=64, help="per agent")
    parser.add_argument("--top-layers", type=int, nargs="+", default=[0, 10], help="0 = adapters on all layers")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--memory", type=int, default=LearnerConfig().pass_memory, help="learner.pass_memory, MiB")
    parser.add_argument("--no-naive-top", action="store_true", help="measure the naive loop on all layers only")
    parser.add_argument("--naive-agents", type=int, default=0, help="measure the naive loop on so many; 0 = on all")
    parser.add_argument("--ours", nargs="+", default=["ours", "joint"], choices=["ours", "joint"])
    parser.add_argument("--worker", choices=["naive", "ours", "joint"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args)))
        return
    backbone: Any = registry.load(BackboneOptions(args.backbone, threads=1))
    folder = str(backbone.folder)
    del backbone
    print(f"{args.backbone} {args.dtype}, {args.decisions} decisions an agent, 2 epochs; naive = PEFT, agent by agent")
    head = f"{'agents':>6} {'adapters':>9} {'':>6} {'CPU s':>8} {'peak MB':>8} {'loss':>9}"
    print(f"{head} {'x naive, same adapters':>23} {'x naive, all layers':>20}")
    for agents in args.agents:
        everywhere = math.nan
        for top in args.top_layers:
            rows = {}
            for worker in ("naive", *args.ours):
                if worker == "naive" and top and args.no_naive_top:
                    continue
                rows[worker] = row = ask(args, worker, agents, top, folder)
                if worker == "naive" and not top:
                    everywhere = row["seconds"]
                where = f"top {top}" if top else "all"
                same = rows["naive"]["seconds"] / row["seconds"] if "naive" in rows else math.nan
                line = f"{agents:>6} {where:>9} {worker:>6} {row['seconds']:>8.1f} {row['peak_mb']:>8.0f}"
                scaled = f"  measured on {row['measured']} agents" if row["measured"] < agents else ""
                ratios = f"{row['loss']:>9.4f} {same:>23.2f} {everywhere / row['seconds']:>20.2f}"
                print(f"{line} {ratios}{scaled}", flush=True)
        print(f"       prompts of {row['tokens']:.0f} tokens, {row['prefix']:.0f} of them rules")


if __name__ == "__main__":
    main()
