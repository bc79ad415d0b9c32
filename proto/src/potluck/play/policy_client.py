"""The policy server as a player sees it (signatures only for now)."""

from types import TracebackType
from typing import Self

from potluck.policy.v1.policy_service_pb2 import ChooseRequest, ChooseResponse, DescribeResponse
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceAsyncStub
from potluck.rpc.security import Security


class PolicyClient:
    """A channel to the policy server. `stub` is for the calls that have no helper here."""

    stub: PolicyServiceAsyncStub
    address: str

    def __init__(self, address: str, security: Security | None = None) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Closes the channel."""
        raise NotImplementedError

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Waits until the server serves."""
        raise NotImplementedError

    async def describe(self) -> DescribeResponse:
        """What is served; asked once."""
        raise NotImplementedError

    async def choose(self, request: ChooseRequest, timeout_s: float) -> ChooseResponse:
        """Scores a batch of at most `max_batch` decisions."""
        raise NotImplementedError

    async def publish(self, agent: str, config_json: str, weights: bytes, base_digest: str) -> tuple[str, str]:
        """Uploads an adapter; returns its digest and a lease on it."""
        raise NotImplementedError

    async def hold(self, digest: str, holder: str, ttl_s: int = 0) -> str:
        """Takes a lease on an adapter; returns the lease."""
        raise NotImplementedError

    async def release(self, lease: str) -> None:
        """Ends a lease."""
        raise NotImplementedError
