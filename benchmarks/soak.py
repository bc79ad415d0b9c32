"""A soak of the policy server: decisions by the thousand while adapters are published and released.

    python benchmarks/soak.py --decisions 100000 --backbone tiny

Four clients score batches of mixed adapters; between rounds every agent's adapter is replaced and the old one's lease
ends. Checked on every reply: the digests of base, tokenizer and adapter. Checked at the end: a sample of the answers
against a fresh backbone in this process that has seen nothing else, the adapters that are still held, and the server's
memory after the first tenth against the end. Prints one JSON object; exit status 1 if anything is wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import tyro

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.adapters import adapter_digest
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions, Query, Scores, Upload
from potluck_policy_server.conformance import Plan
from potluck_policy_server.conformance.peer import Peer, adapter, decision, peer
from potluck_policy_server.conformance.uploads import AdapterFile, random_adapters

AGENTS, CLIENTS, BATCH, ROUNDS, SAMPLE = 4, 4, 16, 50, 256


class Soak:
    """What was asked, and what came."""

    def __init__(self, address: str, decisions: int) -> None:
        self.address = address
        self.decisions = decisions
        self.wrong_digests = 0
        self.answered = 0
        self.files: dict[str, AdapterFile] = {}
        self.sample: list[tuple[pb.Decision, list[float]]] = []

    async def run(self, pid: int) -> dict[str, Any]:
        """All rounds."""
        began, early = time.perf_counter(), 0
        async with peer(self.address, Plan()) as first:
            held: list[str] = []
            for number in range(ROUNDS):
                digests = await self._replace(first, number, held)
                share = self.decisions // (ROUNDS * CLIENTS * BATCH) + 1
                await asyncio.gather(*(self._client(number, client, digests, share) for client in range(CLIENTS)))
                if number == ROUNDS // 10:
                    early = resident(pid)
            kept = (await first.client.stub.ListAdapters(pb.ListAdaptersRequest())).adapters
            leased = sum(bool(one.holders) for one in kept)
        return {
            "decisions": self.answered,
            "published": len(self.files),
            "adapters_leased_at_end": leased,
            "wrong_digests": self.wrong_digests,
            "decisions_per_second": round(self.answered / (time.perf_counter() - began), 1),
            "server_mib_after_a_tenth": early >> 20,
            "server_mib_at_end": resident(pid) >> 20,
        }

    async def _replace(self, first: Peer, number: int, held: list[str]) -> list[str]:
        """New adapters under leases; the leases of the old ones end."""
        made = await random_adapters(first, [number * AGENTS + agent for agent in range(AGENTS)])
        assert made is not None
        digests, old = [], list(held)
        held.clear()
        for agent, file in enumerate(made):
            base = first.described.base_digest
            digest, lease = await first.client.publish(f"agent_{agent}", file.config_json, file.data, base)
            self.files[digest] = file
            digests.append(digest)
            held.append(lease)
        for lease in old:
            await first.client.release(lease)
        return digests

    async def _client(self, number: int, client: int, digests: list[str], batches: int) -> None:
        rng = random.Random(f"{number} {client}")
        async with peer(self.address, Plan()) as mine:
            for _ in range(batches):
                asked = [
                    decision(
                        rng.randrange(1 << 30), rng.randint(2, 8), adapter(rng.choice(digests)), rng.choice([0.7, 1])
                    )
                    for _ in range(BATCH)
                ]
                reply = await mine.ask(asked)
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


def recompute(soak: Soak, backbone_name: str) -> float:
    """Largest difference of probabilities between the sample and a fresh backbone, one decision at a time."""
    fresh: Any = registry.load(BackboneOptions(backbone_name))
    base, worst = fresh.description.base_digest, 0.0
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


def main(decisions: int = 100_000, backbone: str = "tiny", adapter_memory: int = 8) -> None:
    """Soak a server of its own.

    Args:
        decisions: how many.
        backbone: a name or folder whose base can be fetched, or tabular.
        adapter_memory: MiB for adapters; little, so that released ones are dropped.
    """
    command = [sys.executable, "-m", "potluck_policy_server.cli", "serve", "--backbone", backbone]
    command += ["--adapter-memory", str(adapter_memory), "--trace-decisions", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        soak = Soak(process.stdout.readline().split()[-1], decisions)
        result = asyncio.run(soak.run(process.pid))
    finally:
        process.terminate()
        process.wait(30)
    result |= {"recomputed": len(soak.sample), "worst_difference": recompute(soak, backbone)}
    growth = result["server_mib_at_end"] - result["server_mib_after_a_tenth"]
    wrong = result["wrong_digests"] or result["worst_difference"] > 1e-4 or growth > 64
    print(json.dumps({**result, "backbone": backbone, "verdict": "wrong" if wrong else "right"}))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    tyro.cli(main)
