"""A soak of the policy server: decisions by the thousand while adapters are published and released.

    python benchmarks/soak.py --decisions 100000 --backbone tiny

Four clients, two by calls and two by a stream, score batches of mixed adapters. While they do, the next round's
adapters (rank 16, all linear layers) are published; then the old ones' leases end, and little memory makes the server
drop them. Checked on every reply: the digests of base, tokenizer and adapter. Checked at the end: a sample of the
answers against a fresh backbone in this process that has seen nothing else, the adapters that are still leased, and
that the server's memory, which is read after every round, has not grown: the median of the last fifth of rounds is at
most 16 MiB above that of the second fifth (a single reading swings by as much). Progress goes to standard
error, one JSON object to standard output; exit status 1 if anything is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import tyro
from safetensors.numpy import save

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.adapters import adapter_digest
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions, Query, Scores, Upload
from potluck_policy_server.conformance import Plan
from potluck_policy_server.conformance.peer import Peer, adapter, decision, peer
from potluck_policy_server.conformance.uploads import AdapterFile, random_adapters
from potluck_policy_server.folder import canonical, linear_shapes

AGENTS, CLIENTS, BATCH, SAMPLE, RANK = 4, 4, 64, 256, 16
GROWTH = 16 << 20
"""Bytes by which the server may grow."""


class Soak:
    """What was asked, and what came."""

    def __init__(self, address: str, decisions: int, rounds: int, fresh: Any) -> None:
        self.address = address
        self.decisions = decisions
        self.rounds = rounds
        self.fresh = fresh
        """The backbone, loaded here: it says what an adapter looks like, and what the right answers are."""
        self.wrong_digests = 0
        self.answered = 0
        self.files: dict[str, AdapterFile] = {}
        self.sample: list[tuple[pb.Decision, list[float]]] = []

    async def run(self, pid: int) -> dict[str, Any]:
        """All rounds."""
        began, memory = time.perf_counter(), []
        share = math.ceil(self.decisions / (self.rounds * CLIENTS * BATCH))
        async with peer(self.address, Plan()) as first:
            held = await self._publish(first, 0)
            for number in range(self.rounds):
                digests, leases = list(held), list(held.values())
                *_, held = await asyncio.gather(
                    *(self._client(number, client, digests, share) for client in range(CLIENTS)),
                    self._publish(first, number + 1),
                )
                for lease in leases:
                    await first.client.release(lease)
                memory.append(resident(pid))
                if number % 5 == 4:
                    told = f"{self.answered} decisions, {len(self.files)} adapters, {self.wrong_digests} wrong digests"
                    print(f"{told}, server {memory[-1] / 2**20:.1f} MiB", file=sys.stderr, flush=True)
            kept = (await first.client.stub.ListAdapters(pb.ListAdaptersRequest())).adapters
        fifth = self.rounds // 5
        early, late = (statistics.median(part) for part in (memory[fifth : 2 * fifth], memory[-fifth:]))
        return {
            "decisions": self.answered,
            "published": len(self.files),
            "adapters_held_at_end": len(kept),
            "adapters_leased_at_end": sum(bool(one.holders) for one in kept),
            "wrong_digests": self.wrong_digests,
            "decisions_per_second": round(self.answered / (time.perf_counter() - began), 1),
            "server_mib": [round(one / 2**20) for one in memory],
            "growth_mib": round((late - early) / 2**20, 1),
        }

    async def _publish(self, first: Peer, number: int) -> dict[str, str]:
        """New adapters of all agents: leases by digest."""
        seeds = [number * AGENTS + agent for agent in range(AGENTS)]
        made = await random_adapters(first, seeds) if self.fresh.description.tokenizer_digest == "" else None
        leases = {}
        for agent, seed in enumerate(seeds):
            file = made[agent] if made else lora(linear_shapes(self.fresh.files()[0].parent), seed)
            base = first.described.base_digest
            digest, lease = await first.client.publish(f"agent_{agent}", file.config_json, file.data, base)
            self.files[digest] = file
            leases[digest] = lease
        return leases

    async def _client(self, number: int, client: int, digests: list[str], batches: int) -> None:
        rng = random.Random(f"{number} {client}")
        async with peer(self.address, Plan()) as mine, contextlib.AsyncExitStack() as stack:
            stream = await stack.enter_async_context(await mine.client.stream()) if client % 2 else None
            for _ in range(batches):
                asked = [
                    decision(
                        rng.randrange(1 << 30), rng.randint(2, 8), adapter(rng.choice(digests)), rng.choice([0.7, 1])
                    )
                    for _ in range(BATCH)
                ]
                reply = await (stream.choose(pb.ChooseRequest(decisions=asked)) if stream else mine.ask(asked))
                self._check(mine, asked, reply, rng)

    def _check(self, mine: Peer, asked: list[pb.Decision], reply: pb.ChooseResponse, rng: random.Random) -> None:
        one = mine.described
        right = (reply.base_digest, reply.tokenizer_digest) == (one.base_digest, one.tokenizer_digest)
        self.wrong_digests += not right or len(reply.choices) != len(asked)
        for question, choice in zip(asked, reply.choices, strict=True):
            self.answered += 1
            self.wrong_digests += choice.adapter_digest != question.policy.adapter
            if rng.random() < SAMPLE / self.decisions:
                self.sample.append((question, list(choice.probabilities)))


def lora(shapes: dict[str, tuple[int, int]], seed: int) -> AdapterFile:
    """A random adapter of all linear layers."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for module, (out, inner) in shapes.items():
        name = f"base_model.model.{module}.lora_{{}}.weight"
        tensors[name.format("A")] = rng.normal(0, inner**-0.5, (RANK, inner)).astype(np.float32)
        tensors[name.format("B")] = rng.normal(0, 0.1, (out, RANK)).astype(np.float32)
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "target_modules": sorted({module.rpartition(".")[2] for module in shapes}),
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    return AdapterFile(canonical(config), save(tensors, {"format": "pt"}))


def recompute(soak: Soak) -> float:
    """Largest difference of probabilities between the sample and the fresh backbone, one decision at a time."""
    fresh, worst = soak.fresh, 0.0
    base = fresh.description.base_digest
    for question, found in soak.sample:
        file = soak.files[question.policy.adapter]
        config = json.loads(file.config_json)
        assert adapter_digest(base, config, file.sha256) == question.policy.adapter
        held = fresh.read_adapter(Upload(question.policy.adapter, "agent_0", config, file.data))
        query = Query(question.prompt, held, question.temperature, fresh.description.label_scheme)
        (scores,) = fresh.score([fresh.prepare(query)])
        assert isinstance(scores, Scores)
        worst = max(worst, float(np.abs(np.exp(scores.logprobs) - found).max()))
        fresh.forget(question.policy.adapter)
    return worst


def resident(pid: int) -> int:
    """Bytes of a process in memory (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(decisions: int = 100_000, backbone: str = "tiny", rounds: int = 50, adapter_memory: int = 8) -> None:
    """Soak a server of its own.

    Args:
        decisions: how many.
        backbone: a name or folder whose base can be fetched, or tabular.
        rounds: how often all adapters are replaced; at least 5.
        adapter_memory: MiB for adapters; little, so that released ones are dropped.
    """
    command = [sys.executable, "-m", "potluck_policy_server.cli", "serve", "--backbone", backbone]
    command += ["--adapter-memory", str(adapter_memory), "--trace-decisions", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        soak = Soak(process.stdout.readline().split()[-1], decisions, rounds, registry.load(BackboneOptions(backbone)))
        result = asyncio.run(soak.run(process.pid))
    finally:
        process.terminate()
        process.wait(30)
    result |= {"recomputed": len(soak.sample), "worst_difference": recompute(soak)}
    wrong = result["wrong_digests"] or result["worst_difference"] > 1e-4 or result["growth_mib"] * 2**20 > GROWTH
    wrong = wrong or result["adapters_leased_at_end"] != AGENTS
    print(json.dumps({**result, "backbone": backbone, "verdict": "wrong" if wrong else "right"}))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    tyro.cli(main)
