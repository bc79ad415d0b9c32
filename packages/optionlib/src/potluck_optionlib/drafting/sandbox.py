"""Runs a drafted module in a child process and reports what came of it.

The child is a fresh interpreter with an empty environment (no keys, no proxies), a temporary folder of its own as
working directory, a process group of its own, and the limits of `jail.py`. The parent enforces the wall clock and the
size of the answer, kills the whole group, and turns every way of dying into a finding: a draft that breaks the child
breaks nothing else. This keeps mistakes in; it is no wall against an attacker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import IO

from pydantic import ValidationError

from potluck_optionlib.drafting.errors import SandboxError
from potluck_optionlib.drafting.findings import Finding, Stage
from potluck_optionlib.drafting.jail import BREACH
from potluck_optionlib.drafting.messages import Event, Request, Verdict

COMMAND = (sys.executable, "-P", "-s", "-B", "-m", "potluck_optionlib.drafting.runner")
STARTUP_S = 120.0
"""Seconds for the child to import the game before the module's own time begins."""
_TAIL = 4000
_OVERSIZE = b""

Progress = Callable[[int, int], None]


@dataclass
class _Run:
    """What has been heard of a child."""

    request: Request
    stage: Stage = Stage.LOAD
    verdict: Verdict | None = None
    breach: Event | None = None
    failed: Event | None = None
    ready: bool = False
    cut: str = ""
    """Why the parent killed it."""
    errors: bytearray = field(default_factory=bytearray)


def run(
    request: Request,
    progress: Progress | None = None,
    command: Sequence[str] = COMMAND,
    hash_seed: int = 0,
) -> Verdict:
    """The child's verdict, or one whose finding says how it died. Raises SandboxError."""
    if os.name != "posix":
        raise SandboxError("Drafted modules run under POSIX resource limits, which this system lacks. Use Linux.")
    with tempfile.TemporaryDirectory(prefix="potluck-draft-") as home:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=_environment(home, hash_seed),
            start_new_session=True,
        )
        heard = _Run(request)
        try:
            _converse(child, heard, progress)
        finally:
            _kill(child)
    return _verdict(heard, child.returncode)


def _environment(home: str, hash_seed: int) -> dict[str, str]:
    """Nothing of the parent's but where modules are found."""
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": str(hash_seed),
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _converse(child: subprocess.Popen[bytes], heard: _Run, progress: Progress | None) -> None:
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    if stdin is None or stdout is None or stderr is None:
        raise SandboxError("the child process has no pipes")
    lines: SimpleQueue[bytes | None] = SimpleQueue()
    limit = heard.request.limits.reply_mb * 2**20
    readers = [
        threading.Thread(target=_read_lines, args=(stdout, lines, limit), daemon=True),
        threading.Thread(target=_read_tail, args=(stderr, heard.errors), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        stdin.write(heard.request.model_dump_json().encode())
        stdin.close()
    except BrokenPipeError:
        pass
    _listen(lines, heard, progress)
    _kill(child)
    for reader in readers:
        reader.join(timeout=5)


def _listen(lines: SimpleQueue[bytes | None], heard: _Run, progress: Progress | None) -> None:
    deadline = time.monotonic() + STARTUP_S
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            heard.cut = "time"
            return
        if line is None:
            return
        if line == _OVERSIZE:
            heard.cut = "size"
            return
        try:
            event = Event.model_validate_json(line)
        except ValidationError:
            heard.cut = "protocol"
            return
        if event.event == "ready":
            heard.ready = True
            deadline = time.monotonic() + heard.request.seconds * heard.request.limits.wall_factor
        elif event.event == "phase":
            heard.stage = Stage(event.name)
        elif event.event == "progress" and progress is not None:
            progress(event.done, event.total)
        elif event.event == "breach":
            heard.breach = event
        elif event.event == "failed":
            heard.failed = event
        elif event.event == "result":
            heard.verdict = event.verdict
            return


def _verdict(heard: _Run, code: int) -> Verdict:
    if heard.verdict is not None:
        return heard.verdict
    if heard.failed is not None:
        raise SandboxError(f"The child process could not make {heard.request.game}: {heard.failed.text}")
    tail = " ".join(bytes(heard.errors).decode("utf-8", "replace").split())[-600:]
    if not heard.ready:
        raise SandboxError(
            f"The child process for {heard.request.game} ended (status {code}) before the module was loaded: {tail}"
        )
    kind, evidence = _death(heard, code, tail)
    return Verdict(findings=(Finding(stage=heard.stage, kind=kind, evidence=evidence),))


def _death(heard: _Run, code: int, tail: str) -> tuple[str, str]:
    seconds = f"{heard.request.seconds:g} s"
    wall = f"{heard.request.seconds * heard.request.limits.wall_factor:g} s"
    if heard.breach is not None or code == BREACH:
        event = heard.breach or Event(event="breach", name="unknown")
        return "breach", f"the module tried `{event.name}` ({event.text}): no files, sockets or processes are allowed."
    if heard.cut == "protocol":
        return "protocol", "the module wrote into the child's channel."
    if heard.cut == "size":
        return "reply_size", f"the child sent more than {heard.request.limits.reply_mb} MiB."
    if heard.cut == "time":
        return "wall_time", f"the module was still running after {wall}. It may loop forever."
    if code == -signal.SIGXCPU:
        return "cpu_time", f"the module used more than {seconds} of CPU. It may loop forever."
    name = signal.Signals(-code).name if code < 0 else f"status {code}"
    kind = "memory" if "MemoryError" in tail or "bad_alloc" in tail else "crash"
    return kind, f"the child process ended with {name}: {tail or 'no message'}"


def _read_lines(pipe: IO[bytes], lines: SimpleQueue[bytes | None], limit: int) -> None:
    left = limit
    while line := pipe.readline(left + 1):
        left -= len(line)
        if left < 0:
            lines.put(_OVERSIZE)
            return
        lines.put(line)
    lines.put(None)


def _read_tail(pipe: IO[bytes], tail: bytearray) -> None:
    while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
        tail += chunk
        del tail[:-_TAIL]


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Waits a moment for the child to end, then ends its whole process group."""
    try:
        child.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
