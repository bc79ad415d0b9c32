"""The policy server as a player and a learner see it.

API: `PolicyClient(address, security=None)` with `.stub .address`, `wait_ready`, `describe`, `choose`, `stream`,
`generate`, `publish`, `hold`, `release`; `adapter_digest(base_digest, config_json, weights_sha256)`.
"""

import hashlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from potluck.play.choice_stream import ChoiceStream
from potluck.play.errors import DigestMismatch
from potluck.policy.v1.policy_service_pb2 import (
    AdapterHeader,
    ChooseRequest,
    ChooseResponse,
    DescribeRequest,
    DescribeResponse,
    GenerateRequest,
    GenerateResponse,
    HoldAdapterRequest,
    PublishAdapterRequest,
    ReleaseAdapterRequest,
)
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceStub
from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.limits import STREAM_DEADLINE_S
from potluck.rpc.outgoing import stream_metadata
from potluck.rpc.security import Security

if TYPE_CHECKING:
    # The asynchronous view of the stub exists for type checkers alone.
    from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceAsyncStub

CHUNK = 1 << 20
_PUBLISH_ATTEMPTS = 3
_PUBLISH_TIMEOUT_S = 300.0


def adapter_digest(base_digest: str, config_json: str, weights_sha256: str) -> str:
    """The name of an adapter, computed by both ends."""
    return hashlib.sha256(f"{base_digest}\n{config_json}\n{weights_sha256}\n".encode()).hexdigest()


class PolicyClient:
    """A channel to the policy server. `stub` is for the calls that have no helper here."""

    stub: "PolicyServiceAsyncStub"

    def __init__(self, address: str, security: Security | None = None) -> None:
        self.address = address
        self._security = Security.from_env() if security is None else security
        self._channel = connect(address, self._security)
        self.stub = PolicyServiceStub(self._channel)
        self._described: DescribeResponse | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Waits until the server serves."""
        await wait_ready(self._channel, self.address, timeout_s)

    async def describe(self) -> DescribeResponse:
        """What is served; asked once."""
        if self._described is None:
            with typed_errors(self._peer):
                self._described = await self.stub.Describe(DescribeRequest())
        return self._described

    async def choose(self, request: ChooseRequest, timeout_s: float = 300.0) -> ChooseResponse:
        """Scores a batch of at most the server's `max_batch` decisions."""
        with typed_errors(self._peer):
            return await self.stub.Choose(request, timeout=timeout_s)

    async def stream(self, timeout_s: float = STREAM_DEADLINE_S) -> ChoiceStream:
        """A stream for many batches at once. Raises UNSUPPORTED where the server offers none."""
        most = (await self.describe()).max_in_flight
        if not most:
            message = f"{self._peer} offers no ChooseStream"
            raise PotluckError(Reason.UNSUPPORTED, message, "call choose, which every policy server answers")
        call = self.stub.ChooseStream(metadata=stream_metadata(self._security), timeout=timeout_s)
        return ChoiceStream(call, self._peer, most)

    async def generate(self, request: GenerateRequest, timeout_s: float = 300.0) -> GenerateResponse:
        """Writes a text; the same request gives the same text."""
        with typed_errors(self._peer):
            return await self.stub.Generate(request, timeout=timeout_s)

    async def publish(self, agent: str, config_json: str, weights: bytes, base_digest: str) -> tuple[str, str]:
        """Uploads an adapter; returns its digest and a lease on it. Safe to repeat: the bytes name the adapter."""
        sha256 = hashlib.sha256(weights).hexdigest()
        want = adapter_digest(base_digest, config_json, sha256)
        header = AdapterHeader(
            agent=agent, config_json=config_json, base_digest=base_digest, size=len(weights), sha256=sha256
        )
        for attempt in range(1, _PUBLISH_ATTEMPTS + 1):
            try:
                with typed_errors(self._peer):
                    reply = await self.stub.PublishAdapter(_parts(header, weights), timeout=_PUBLISH_TIMEOUT_S)
                break
            except PotluckError as error:
                if error.reason != Reason.UNREACHABLE or attempt == _PUBLISH_ATTEMPTS:
                    raise
                await self.wait_ready()
        if reply.digest != want:
            raise DigestMismatch("the published adapter's digest", want, reply.digest, "use servers of one version")
        return reply.digest, reply.lease

    async def hold(self, digest: str, holder: str, ttl_s: int = 0) -> str:
        """Takes a lease on an adapter; returns the lease."""
        with typed_errors(self._peer):
            reply = await self.stub.HoldAdapter(HoldAdapterRequest(digest=digest, holder=holder, ttl_s=ttl_s))
        return reply.lease

    async def release(self, lease: str) -> None:
        """Ends a lease."""
        with typed_errors(self._peer):
            await self.stub.ReleaseAdapter(ReleaseAdapterRequest(lease=lease))

    @property
    def _peer(self) -> str:
        return f"policy server {self.address}"


def _parts(header: AdapterHeader, weights: bytes) -> Iterator[PublishAdapterRequest]:
    yield PublishAdapterRequest(header=header)
    for start in range(0, len(weights), CHUNK):
        yield PublishAdapterRequest(chunk=weights[start : start + CHUNK])
