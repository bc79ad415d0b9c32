"""Which env server an episode begins on, within one call of `play`.

Servers with fewer failures come first, then those that the episode did not fail on, then the one with the fewest
episodes. A server that broke is asked again when no other is left; one that turned an episode away, because it is full
or shuts down, when an episode has left it.
"""

import asyncio
import logging
import time

from potluck.play.pool import EnvPool, EnvServer
from potluck.play.stream import EnvStream
from potluck.rpc.errors import PotluckError, Reason

_LOG = logging.getLogger("potluck.play")
_QUICK_S = 1.0
_PAUSE_S = 0.2


class Seat:
    """One server's part in the fleet."""

    def __init__(self, server: EnvServer) -> None:
        self.server = server
        self.address = server.address
        self.stream: EnvStream | None = None
        self.failures = 0
        self.load = 0
        self.closed = False
        """Turned an episode away, and none has left since."""

    def leave(self) -> None:
        """An episode ended here, which makes room."""
        self.load = max(0, self.load - 1)
        self.closed = False

    def reset(self) -> None:
        """Forgets a stream that takes no new episodes and has none."""
        if self.stream is not None:
            self.stream.cancel()
        self.stream = None
        self.closed = False

    def fail(self, error: PotluckError) -> None:
        """Counts a loss."""
        _LOG.warning("lost env server %s: %s", self.address, error.message)
        self.stream = None
        self.failures += 1
        self.load = 0


class Fleet:
    """The servers of a pool with their streams."""

    def __init__(self, pool: EnvPool, timeout_s: float) -> None:
        self.seats = [Seat(server) for server in pool.servers]
        self._timeout_s = timeout_s
        self._turned_away: tuple[float, PotluckError] | None = None

    async def prepare(self, wait: bool) -> bool:
        """Whether a server takes new episodes; opens streams when none does, and waits for one if asked to."""
        end = time.monotonic() + self._timeout_s
        if wait and self._turned_away is not None:
            since, error = self._turned_away
            if time.monotonic() - since > self._timeout_s:
                raise error
            await asyncio.sleep(_PAUSE_S)
        while not self._open():
            if not wait and any(seat.load for seat in self.seats):
                return False
            for seat in self.seats:
                seat.reset()
            errors = await asyncio.gather(*(_open(seat, min(_QUICK_S, self._timeout_s)) for seat in self.seats))
            if not self._open():
                if time.monotonic() >= end:
                    raise next(error for error in errors if error is not None)
                await asyncio.sleep(_PAUSE_S)
        return True

    def _open(self) -> list[Seat]:
        return [seat for seat in self.seats if seat.stream is not None and not seat.closed]

    def turned_away(self, seat: Seat, error: PotluckError) -> None:
        """A server takes no new episode for now."""
        seat.closed = True
        self._turned_away = self._turned_away or (time.monotonic(), error)

    def took(self) -> None:
        """A server took an episode."""
        self._turned_away = None

    def pick(self, avoid: str) -> Seat:
        """The server for the next episode, which failed on `avoid` before."""
        seat = min(self._open(), key=lambda seat: (seat.failures, seat.address == avoid, seat.load))
        seat.load += 1
        return seat

    def close(self) -> None:
        """Ends all streams."""
        for seat in self.seats:
            if seat.stream is not None:
                seat.stream.cancel()


async def _open(seat: Seat, timeout_s: float) -> PotluckError | None:
    try:
        await seat.server.wait_ready(timeout_s)
    except PotluckError as error:
        if error.reason not in (Reason.UNREACHABLE, Reason.DRAINING):
            raise
        return error
    seat.stream = seat.server.open_stream()
    return None
