"""The adapters that are held: immutable, named by digest, kept by leases, dropped only when nobody needs them.

An adapter without a live lease stays until memory is wanted; then the one used least recently goes first. A request in
flight pins what it uses. Everything here runs on the server's event loop.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from potluck_policy_server.backbones.base import Adapter
from potluck_policy_server.errors import InvalidRequest, Overloaded, UnknownAdapter, UnknownLease
from potluck_policy_server.folder import canonical, sha256_hex

DEFAULT_TTL_S = 1800
LONGEST_TTL_S = 7 * 24 * 3600
_AGENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_HOLDER = re.compile(r"[\x20-\x7e]{0,128}")


@dataclass(frozen=True, slots=True)
class Lease:
    """Somebody's claim on an adapter."""

    digest: str
    holder: str
    expires: float


class Info(NamedTuple):
    """What ListAdapters says about one."""

    adapter: Adapter
    holders: tuple[str, ...]
    decisions: int


class Published(NamedTuple):
    """The outcome of `add`."""

    known: bool
    lease: str


def adapter_digest(base_digest: str, config: dict[str, Any], sha256: str) -> str:
    """The adapter's name: sha256 of base digest, canonical config and the file's sha256, each ended by a newline."""
    return sha256_hex(f"{base_digest}\n{canonical(config)}\n{sha256}\n".encode())


def check_agent(name: str) -> None:
    """Refuses names that could not be file names or identifiers anywhere."""
    if not _AGENT.fullmatch(name):
        raise InvalidRequest("agent", f"{name!r} is no agent name", "use letters, digits, '_', '-' and '.', at most 64")


class AdapterStore:
    """Adapters in memory, at most `budget` bytes."""

    def __init__(
        self,
        budget: int,
        ttl_s: float = DEFAULT_TTL_S,
        on_drop: Callable[[str], None] = lambda _digest: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._ttl_s = ttl_s
        self._on_drop = on_drop
        self._clock = clock
        self._held: OrderedDict[str, Adapter] = OrderedDict()
        self._leases: dict[str, Lease] = {}
        self._pins: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self.size = 0
        self.evictions = 0

    def __contains__(self, digest: str) -> bool:
        return digest in self._held

    def get(self, digest: str) -> Adapter:
        """The adapter, or UnknownAdapter."""
        if (adapter := self._held.get(digest)) is None:
            raise UnknownAdapter(digest)
        self._held.move_to_end(digest)
        return adapter

    @contextlib.contextmanager
    def pinned(self, digests: Iterable[str]) -> Iterator[None]:
        """Keeps adapters while a request that uses them is in flight."""
        pins = Counter(digests)
        self._pins.update(pins)
        try:
            yield
        finally:
            self._decisions.update(pins)
            self._pins.subtract(pins)
            self._pins = +self._pins

    def add(self, adapter: Adapter, holder: str = "") -> Published:
        """Stores an adapter (again) and leases it to its publisher."""
        known = adapter.digest in self._held
        if not known:
            self._make_room(adapter.size)
            self._held[adapter.digest] = adapter
            self.size += adapter.size
        return Published(known, self.hold(adapter.digest, holder))

    def hold(self, digest: str, holder: str, ttl_s: float = 0) -> str:
        """A lease on an adapter that is held."""
        if not _HOLDER.fullmatch(holder):
            raise InvalidRequest("holder", "a holder is at most 128 printable ASCII characters")
        if ttl_s > LONGEST_TTL_S:
            raise InvalidRequest("ttl_s", f"{ttl_s} is more than a week", "take a shorter lease and hold again")
        self._expire()
        self.get(digest)
        name = secrets.token_hex(12)
        self._leases[name] = Lease(digest, holder, self._clock() + (ttl_s or self._ttl_s))
        return name

    def release(self, lease: str) -> None:
        """Ends a lease."""
        self._expire()
        if self._leases.pop(lease, None) is None:
            raise UnknownLease(lease)

    def infos(self) -> list[Info]:
        """Everything held, by digest."""
        self._expire()
        holders: dict[str, list[str]] = {}
        for lease in self._leases.values():
            holders.setdefault(lease.digest, []).append(lease.holder)
        return [
            Info(self._held[digest], tuple(sorted(holders.get(digest, ()))), self._decisions[digest])
            for digest in sorted(self._held)
        ]

    def _make_room(self, size: int) -> None:
        self._expire()
        needed = {lease.digest for lease in self._leases.values()} | set(self._pins)
        droppable = [digest for digest in self._held if digest not in needed]
        free = self._budget - self.size + sum(self._held[digest].size for digest in droppable)
        if size > free:
            cure = "release leases, or start the server with a larger --adapter-memory"
            raise Overloaded(f"the adapter needs {size} bytes; {max(free, 0)} of {self._budget} can be freed", cure)
        self._drop_until(self._budget - size, droppable)

    def _drop_until(self, target: int, droppable: Sequence[str]) -> None:
        for digest in droppable:
            if self.size <= target:
                return
            self.size -= self._held.pop(digest).size
            self._decisions.pop(digest, None)
            self.evictions += 1
            self._on_drop(digest)

    def _expire(self) -> None:
        now = self._clock()
        for name in [name for name, lease in self._leases.items() if lease.expires <= now]:
            del self._leases[name]
