"""Keeps the adapters of a run on the policy server while counterfactuals are played."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from potluck.play.policy_client import PolicyClient
from potluck.rpc.errors import PotluckError, Reason
from potluck_audit.errors import CorruptRecords, Diverged, UnknownRun

HOLDER = "potluck-audit"
HOLD_S = 24 * 3600
"""A job of many coalitions is long; leases end with the job, and after this time if it dies."""


@asynccontextmanager
async def held(policy: PolicyClient, digests: Mapping[str, str], *runs: Path) -> AsyncIterator[None]:
    """Holds a lease on every adapter (digest to agent); those that the server lacks are published from the runs."""
    leases = []
    try:
        for digest, agent in digests.items():
            leases.append(await _hold(policy, digest, agent, runs))
        yield
    finally:
        for lease in leases:
            with suppress(PotluckError):  # expired leases are as good as released
                await policy.release(lease)


async def _hold(policy: PolicyClient, digest: str, agent: str, runs: Sequence[Path]) -> str:
    try:
        return await policy.hold(digest, HOLDER, HOLD_S)
    except PotluckError as error:
        if error.reason != Reason.UNKNOWN_ADAPTER:
            raise
    found = (sorted((run / "adapters" / digest).glob("*.safetensors")) for run in runs)
    weights = next((files[0] for files in found if files), None)
    if weights is None:
        raise UnknownRun(
            f"adapter {digest[:12]} is neither on the policy server nor in "
            f"{' or '.join(f'{run.name}/adapters' for run in runs)}",
            "copy the adapter's folder back into the run, or name a server that holds it",
        )
    base = (await policy.describe()).base_digest
    published, short_lease = await policy.publish(agent, _config(weights.parent), weights.read_bytes(), base)
    try:
        if published != digest:
            raise Diverged(
                f"adapter {digest[:12]} of the run becomes {published[:12]} on this policy server",
                "serve the backbone that the run was trained on",
            )
        return await policy.hold(digest, HOLDER, HOLD_S)
    finally:
        with suppress(PotluckError):
            await policy.release(short_lease)


def _config(folder: Path) -> str:
    """The adapter's configuration in the canonical form that its digest covers."""
    file = folder / "adapter_config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as broken:
        raise CorruptRecords(file, type(broken).__name__) from broken
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
