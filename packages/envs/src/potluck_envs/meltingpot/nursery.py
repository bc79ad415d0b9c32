"""The engine processes of one program: a nursery, which has built each substrate once, and its forked children.

    python -m potluck_envs.meltingpot.nursery DESCRIPTOR SECONDS

A nursery is spawned with an interpreter of its own: no thread, no channel, nothing that a fork could break. It builds
an engine for the first episode of a substrate and forks for every episode, so that an episode's process shares the
built engine's memory and starts at once. An engine that fails takes its own process along and nothing else. An engine
process can fork again, which is an exact copy of its episode, hidden randomness included.

All of them end when whoever holds the other end of their socket does; an engine that hangs is ended by its own alarm.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from potluck_envs.meltingpot.core import Core
from potluck_envs.meltingpot.substrates import substrate
from potluck_envs.meltingpot.wire import receive, send

START, ADVANCE, REPLAY, RESEED, FORK, OBSERVE = range(6)
"""What an engine process can be asked; it answers with a change, an observation, the pid of a fork, or None."""
HANG_SECONDS = 60
"""After this an engine process ends by itself, should nobody have done it; SECONDS, if given."""

Options = tuple[str, int | None, bool]
"""Substrate, horizon, stochastic ending."""


def main(descriptor: int, hang: int = HANG_SECONDS) -> None:
    """Serves requests for engine processes until the program that spawned this one is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgrp()
    control = socket.socket(fileno=descriptor)
    built: dict[Options, Core] = {}
    while True:
        sock, errors = _adopted(control)
        options: Options = receive(sock)
        if options not in built:
            name, horizon, stochastic_ending = options
            built[options] = Core(substrate(name), horizon, stochastic_ending)
        if pid := os.fork():
            send(sock, pid)
            sock.close()
            os.close(errors)
        else:
            control.close()
            os.dup2(errors, sys.stderr.fileno())
            os.close(errors)
            serve(built[options], sock, hang)


def _adopted(control: socket.socket) -> tuple[socket.socket, int]:
    """A new engine process's socket and what it may write errors to."""
    note, descriptors, _, _ = socket.recv_fds(control, 1, 2)
    if not note:
        os._exit(0)
    sock, errors = descriptors
    return socket.socket(fileno=sock), errors


def serve(core: Core, sock: socket.socket, hang: int = HANG_SECONDS) -> None:
    """Plays for whoever holds the other end of the socket."""
    try:
        while True:
            request = receive(sock)
            if request[0] == FORK:
                sock = _branch(sock)
                continue
            signal.alarm(hang)
            answer = _answer(core, *request)
            signal.alarm(0)
            send(sock, answer)
    except (EOFError, OSError):
        os._exit(0)


def _branch(sock: socket.socket) -> socket.socket:
    """Forks; returns the socket that this process, the old or the new one, goes on with."""
    send(sock, None)
    _, [descriptor], _, _ = socket.recv_fds(sock, 1, 1)
    if pid := os.fork():
        os.close(descriptor)
        send(sock, pid)
        return sock
    sock.close()
    return socket.socket(fileno=descriptor)


def _answer(core: Core, ask: int, *arguments: Any) -> Any:
    if ask == ADVANCE:
        return tuple(core.advance(*arguments))
    if ask == START:
        return tuple(core.start(*arguments))
    if ask == OBSERVE:
        seen = core.observe(*arguments)
        return seen.tobytes(), seen.shape, seen.dtype.str
    if ask == RESEED:
        return core.reseed(*arguments)
    return _replay(core, *arguments)


def _replay(core: Core, agents: int, begun: int, moves: bytes, reseeds: Sequence[tuple[int, int]]) -> None:
    core.replay(agents, begun, moves, reseeds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
