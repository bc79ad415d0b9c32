"""A core in a supervised process of its own: what kills an engine costs one episode.

`ProcessCore` has the methods of `Core`. An engine that dies raises EngineCrashed with the last lines that it wrote, one
that does not answer in time is killed and raises EngineTimeout; the core is of no use after that, a new one is.
"""

from __future__ import annotations

import logging
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from potluck_envs import patience
from potluck_envs.errors import EngineBuildTimeout, EngineCrashed, EngineTimeout
from potluck_envs.meltingpot import nursery as child
from potluck_envs.meltingpot import stack
from potluck_envs.meltingpot.frame import Change
from potluck_envs.meltingpot.substrates import Substrate
from potluck_envs.meltingpot.wire import receive, send

_SIGN_SECONDS = 1.0
_TAIL_BYTES = 4000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FOLDERS = re.compile(r"(?:/[^\s/:'\"]+)+/")

log = logging.getLogger(__name__)


class Nursery:
    """The nursery of this process, spawned when it is first needed and again when it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def new(self, options: child.Options) -> tuple[socket.socket, int, IO[bytes]]:
        """A new engine process: its socket, its pid, and the file with what it writes to stderr."""
        stack.lab2d_is_there()
        ours, theirs = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
        limit = patience.build_seconds()
        ours.settimeout(limit)
        with self._lock, theirs:
            try:
                socket.send_fds(self._running(), [b"+"], [theirs.fileno(), errors.fileno()])
            except OSError:
                self._control = None
                socket.send_fds(self._running(), [b"+"], [theirs.fileno(), errors.fileno()])
        try:
            send(ours, options)
            _await(ours, limit)
            return ours, receive(ours), errors
        except TimeoutError:
            self._stop()
            raise EngineBuildTimeout(limit) from None
        except (EOFError, OSError) as error:
            raise EngineCrashed(_cause(errors, "it could not be built")) from error

    def _running(self) -> socket.socket:
        if self._owner != os.getpid():
            self._control, self._process, self._owner = None, None, os.getpid()
        if self._control is None or self._process is None or self._process.poll() is not None:
            self._stop()
            self._control, theirs = socket.socketpair()
            with theirs:
                hang = max(child.HANG_SECONDS, 2 * math.ceil(patience.step_seconds()))
                command = [sys.executable, "-m", child.__name__, str(theirs.fileno()), str(hang)]
                environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
                self._process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
                )
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


_nursery = Nursery()


class ProcessCore:
    """The parent's side of one engine process."""

    def __init__(
        self,
        substrate: Substrate,
        horizon: int | None,
        stochastic_ending: bool,
        timeout: float | None = None,
    ) -> None:
        """timeout: seconds for one answer; by default those that the env server leaves."""
        found = _nursery.new((substrate.name, horizon, stochastic_ending))
        self._look_after(*found, timeout or patience.step_seconds())

    @classmethod
    def of(cls, sock: socket.socket, pid: int, errors: IO[bytes], timeout: float) -> ProcessCore:
        """Looks after an engine process that serves a socket; `errors` is what its stderr goes to."""
        core = cls.__new__(cls)
        core._look_after(sock, pid, errors, timeout)
        return core

    def _look_after(self, sock: socket.socket, pid: int, errors: IO[bytes], timeout: float) -> None:
        self._sock, self.pid, self._errors, self._timeout = sock, pid, errors, timeout
        sock.settimeout(timeout)

    def start(self, seed: int) -> Change:
        """Begins an episode."""
        return Change(*self._ask(child.START, seed))

    def advance(self, actions: bytes) -> Change:
        """Plays one primitive per agent."""
        return Change(*self._ask(child.ADVANCE, actions))

    def replay(self, agents: int, begun: int, moves: bytes, reseeds: Sequence[tuple[int, int]]) -> None:
        """Plays many steps of which nothing is told."""
        self._ask(child.REPLAY, agents, begun, moves, tuple(map(tuple, reseeds)))

    def reseed(self, seed: int) -> None:
        """Seeds the randomness of everything that follows."""
        self._ask(child.RESEED, seed)

    def observe(self, name: str) -> NDArray[Any]:
        """Any observation of the engine's."""
        data, shape, kind = self._ask(child.OBSERVE, name)
        return np.frombuffer(data, np.dtype(kind)).reshape(shape)

    def fork(self, timeout: float | None = None) -> ProcessCore:
        """An exact copy that goes on by itself."""
        ours, theirs = socket.socketpair()
        with theirs:
            # The descriptor follows when it is waited for: read together with the request, it would be lost.
            self._ask(child.FORK)
            socket.send_fds(self._sock, [b"+"], [theirs.fileno()])
            pid = self._answer()
        return ProcessCore.of(ours, pid, self._errors, timeout or self._timeout)

    def close(self) -> None:
        """Ends the process."""
        self._sock.close()

    def __del__(self) -> None:
        if hasattr(self, "_sock"):
            self._sock.close()

    def _ask(self, *request: Any) -> Any:
        try:
            send(self._sock, request)
        except OSError as error:
            raise EngineCrashed(_cause(self._errors, "its process is gone")) from error
        return self._answer()

    def _answer(self) -> Any:
        try:
            return receive(self._sock)
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            self.close()
            raise EngineTimeout(self._timeout) from None
        except (EOFError, OSError) as error:
            self.close()
            raise EngineCrashed(_cause(self._errors, "its process ended without a word")) from error


def _await(sock: socket.socket, seconds: float) -> None:
    """Until something can be read, saying meanwhile that this is no hang. Raises TimeoutError."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    pause = min(seconds, _SIGN_SECONDS)
    for _ in range(math.ceil(seconds / pause)):
        if poll.poll(1000 * pause):
            return
        patience.still_busy()
    raise TimeoutError


def _cause(errors: IO[bytes], otherwise: str) -> str:
    """Why an engine died: its first line about a Lua error, or the last one, without folders; the log has more."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL_BYTES))
    written = _COLOURS.sub("", errors.read().decode("utf-8", "replace")).strip()
    if written:
        log.error("an engine of Melting Pot died and wrote:\n%s", written)
    lines = written.splitlines() or [otherwise]
    why = next((line for line in lines if line.startswith("ERROR:")), lines[-1])
    return f"Melting Pot's engine died: {_FOLDERS.sub('', why.strip())}"
