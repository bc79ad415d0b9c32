"""Starting a policy server in this process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1 import policy_service_pb2_grpc as rpc
from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import typed_errors
from potluck.rpc.logs import configure_logs
from potluck.rpc.security import Security
from potluck.rpc.server import RunningServer, run_until_signal, serve
from potluck.telemetry import setup
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import Backbone, BackboneOptions
from potluck_policy_server.batching import BatchOptions
from potluck_policy_server.config import ServeConfig
from potluck_policy_server.service import PolicyService, ServiceOptions

SERVICE = "potluck.policy.v1.PolicyService"
NAME = "potluck-policy"
_MIB = 1 << 20
PATIENCE_S = 5.0
"""How long `describe` waits for a server."""

log = logging.getLogger(__name__)


async def run(config: ServeConfig) -> None:
    """Serves until a signal comes."""
    configure_logs(NAME, config.log_level)
    setup.configure(NAME)
    backbone = registry.load(backbone_options(config))
    one = backbone.description
    log.info("backbone %s, %d parameters, %s, base %s", one.name, one.parameters, one.dtype, one.base_digest[:12])
    async with started(backbone, service_options(config), config.bind) as (server, _service):
        await run_until_signal(server, NAME)


@contextlib.asynccontextmanager
async def started(
    backbone: Backbone,
    options: ServiceOptions | None = None,
    bind: str = "127.0.0.1:0",
    security: Security | None = None,
) -> AsyncIterator[tuple[RunningServer, PolicyService]]:
    """A running server around a backbone; also what tests use."""
    service = PolicyService(backbone, options)
    service.start()
    try:
        server = await serve(
            lambda s: rpc.add_PolicyServiceServicer_to_server(service, s),
            services=[SERVICE],
            bind=bind,
            security=security,
            on_drain=service.drain,
        )
        try:
            yield server, service
        finally:
            await server.stop(1.0)
    finally:
        await service.close()


async def ask(address: str) -> dict[str, Any]:
    """What the server at an address serves."""
    channel = connect(address)
    try:
        await wait_ready(channel, address, PATIENCE_S)
        with typed_errors(address):
            reply = await rpc.PolicyServiceStub(channel).Describe(pb.DescribeRequest())
        return MessageToDict(reply, preserving_proto_field_name=True)
    finally:
        await channel.close()


def backbone_options(config: ServeConfig) -> BackboneOptions:
    """The part that loading a backbone needs."""
    return BackboneOptions(
        name=config.backbone,
        threads=config.threads,
        dtype=config.dtype,
        device=config.device,
        context=config.context,
        prefix_bytes=config.prefix_memory * _MIB,
        reuse_bytes=config.reuse_memory * _MIB,
        pack_bytes=config.pack_memory * _MIB,
        deterministic=config.deterministic,
        label_mass=config.label_mass,
        samples=config.samples,
        engine=config.engine,
    )


def service_options(config: ServeConfig) -> ServiceOptions:
    """The part that the service needs."""
    return ServiceOptions(
        batching=BatchOptions(
            max_batch=config.max_batch,
            max_queue=config.max_queue,
            merge_below=config.merge_below,
            window_s=config.window_ms / 1000,
        ),
        adapter_bytes=config.adapter_memory * _MIB,
        ttl_s=config.lease_seconds,
        max_in_flight=config.max_in_flight,
        trace_decisions=config.trace_decisions,
    )
