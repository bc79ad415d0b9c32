"""Runs one command and never outlives its starter, however that ends: `python -m potluck_trainer.leash COMMAND …`.

Standard input is the leash: its end means that the starter is gone (even killed outright). Then, or at SIGTERM, the
command gets SIGTERM, after a grace SIGKILL, and with it whatever it started. A terminal's Ctrl-C does not come here,
because the leash leads a session of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

GRACE_S = 15.0


def main(command: Sequence[str]) -> int:
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ending.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_starter, args=(ending,), daemon=True).start()
    while child.poll() is None and not ending.wait(0.1):
        pass
    code = _end(child)
    _kill_rest()
    return code


def _watch_starter(ending: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ending.set()


def _end(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()


def _kill_rest() -> None:
    """Whatever the command left in this session's process group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgrp() == os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgrp(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
