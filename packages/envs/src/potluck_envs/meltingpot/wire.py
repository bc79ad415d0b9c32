"""Messages between a process and the engine processes that it looks after: a length and a marshalled value.

Only whole numbers, floats, texts, bytes and tuples of them cross, between processes of one program on one machine.
"""

from __future__ import annotations

import marshal
import socket
import struct
from typing import Any

_HEADER = struct.Struct("!I")
_CHUNK = 1 << 16


def send(sock: socket.socket, message: Any) -> None:
    """Raises OSError where nobody listens any more."""
    body = marshal.dumps(message)
    sock.sendall(_HEADER.pack(len(body)) + body)


def receive(sock: socket.socket) -> Any:
    """The next message. Raises EOFError where the other side has gone, TimeoutError where the socket has a time-out."""
    data = sock.recv(_CHUNK)
    while len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[0]:
        more = sock.recv(_CHUNK)
        if not data or not more:
            raise EOFError("the connection was closed")
        data += more
    return marshal.loads(data[_HEADER.size :])
