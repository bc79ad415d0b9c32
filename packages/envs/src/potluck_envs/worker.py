"""The worker process: a host behind a socket.

Messages are length-prefixed pickles between a server and the processes it spawned itself. A batch of jobs is answered
in order, in one message or, when it takes long, in several: each answer tells the server's watchdog that the worker
lives. A worker ends when its server is gone, also in the middle of a command.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.logs import configure_logs
from potluck_envs import patience
from potluck_envs.errors import EnvError
from potluck_envs.host import Host, Job, Result, crashed
from potluck_envs.registry import Registry

HEADER = struct.Struct("!Q")
FLUSH_SECONDS = 0.25
FLUSH_BYTES = 1 << 20

log = logging.getLogger(__name__)


class Do(IntEnum):
    """What the server asks of a worker."""

    RUN = 0
    DROP = 1
    GAMES = 2
    REPLAY = 3


class Ask(NamedTuple):
    """A message to a worker."""

    do: Do
    body: Any
    """Jobs, keys, or a serialized request."""
    ticket: int = 0
    """Echoed in the answer to GAMES and REPLAY."""


class Said(NamedTuple):
    """A message from a worker: results of jobs, the answer to a ticket, or (neither) that it is ready or still busy."""

    results: Sequence[Result] = ()
    ticket: int = 0
    answer: bytes | EnvError | None = None


def pack(message: Ask | Said) -> bytes:
    """A message with its length."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body)) + body


def main(sock: socket.socket, log_level: int, limits: patience.Limits) -> None:
    """Entry point of the spawned process."""
    # Ctrl-C and kills of the process group are the server's to handle: it drains, and this process goes with it.
    os.setpgrp()
    configure_logs(f"potluck-envs worker {os.getpid()}", logging.getLevelName(log_level))
    threading.Thread(target=_die_with_server, args=(sock.fileno(),), daemon=True).start()
    patience.allow(limits)
    Worker(sock).serve()


def _die_with_server(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os._exit(0)


class Worker:
    """Reads asks and answers them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = sock.makefile("rb", buffering=1 << 16)
        self._host = Host(Registry())

    def serve(self) -> None:
        """Until the server closes the socket."""
        patience.tell(lambda: self._send(Said()))
        self._send(Said())
        while header := self._reader.read(HEADER.size):
            ask = pickle.loads(self._reader.read(HEADER.unpack(header)[0]))
            if ask.do is Do.RUN:
                self._run(ask.body)
            elif ask.do is Do.DROP:
                for key in ask.body:
                    self._host.drop(key)
            else:
                self._send(Said((), ask.ticket, self._answer(ask)))

    def _run(self, jobs: Sequence[Job]) -> None:
        results: list[Result] = []
        size, flushed = 0, time.monotonic()
        for job in jobs:
            result = self._host.run(job)
            results.append(result)
            size += len(result.update)
            if size > FLUSH_BYTES or time.monotonic() - flushed > FLUSH_SECONDS:
                self._send(Said(results))
                results, size, flushed = [], 0, time.monotonic()
        if results:
            self._send(Said(results))

    def _answer(self, ask: Ask) -> bytes | EnvError:
        try:
            if ask.do is Do.GAMES:
                return self._host.games().SerializeToString()
            return self._host.replay(pb.ReplayRequest.FromString(ask.body)).SerializeToString()
        except EnvError as error:
            return error
        except Exception as error:
            return crashed(error)

    def _send(self, said: Said) -> None:
        self._sock.sendall(pack(said))
