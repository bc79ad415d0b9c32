"""Puts a team's weights onto the policy server, under leases that end when the next ones are up."""

from __future__ import annotations

import contextlib

from potluck.play import PolicyClient
from potluck.rpc.errors import PotluckError
from potluck.telemetry import names
from potluck.telemetry.context import start_span
from potluck_trainer.learners.base import Adapter, Team

LEASE_S = 3600


class Publisher:
    """Remembers what is up, so that unchanged weights are not sent again."""

    def __init__(self, policy: PolicyClient, holder: str) -> None:
        self._policy = policy
        self._holder = holder
        self._leases: dict[str, dict[str, str]] = {}
        """Agent -> digest -> lease."""

    async def publish(self, team: Team) -> dict[str, str]:
        """Agent -> digest of its present weights, held on the server."""
        digests = {}
        for agent in team.agents:
            digests[agent] = await self.publish_adapter(team.export(agent))
        for agent, digest in digests.items():
            for old in [other for other in self._leases[agent] if other != digest]:
                await self._release(self._leases[agent].pop(old))
        return digests

    async def publish_adapter(self, adapter: Adapter) -> str:
        """Uploads an adapter unless the server holds it already, and renews its lease."""
        held = self._leases.setdefault(adapter.agent, {})
        digest = adapter.digest
        renewed = await self._renew(digest) if digest in held else None
        if renewed is None:
            with start_span(names.PUBLISH, {names.AGENT: adapter.agent, names.ADAPTER: digest}):
                _, lease = await self._policy.publish(
                    adapter.agent, adapter.config_json, adapter.weights, adapter.base_digest
                )
                renewed = await self._policy.hold(digest, self._holder, LEASE_S)
                await self._release(lease)
        old = held.pop(digest, None)
        held[digest] = renewed
        if old is not None:
            await self._release(old)
        return digest

    async def _renew(self, digest: str) -> str | None:
        """A fresh lease, or None where the server was restarted and knows the adapter no more."""
        try:
            return await self._policy.hold(digest, self._holder, LEASE_S)
        except PotluckError:
            return None

    async def _release(self, lease: str) -> None:
        with contextlib.suppress(PotluckError):  # expired leases are as good as released
            await self._policy.release(lease)

    async def release_all(self) -> None:
        for held in self._leases.values():
            for lease in held.values():
                await self._release(lease)
        self._leases.clear()
