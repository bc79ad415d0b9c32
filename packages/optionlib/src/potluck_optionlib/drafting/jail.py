"""What the child process gives up before it loads a drafted module: resources, by rlimits, and the outside.

The outside is closed twice: by the kernel (`seccomp.py`), which refuses, and by an audit hook, which names the cause.

A breach ends the process at once, after one line about it on the protocol: the module cannot catch it. The hook sees
Python's own audit events; it stops code that strays, not an attacker who brings machine code or an interpreter bug.
Reading stays allowed under the folders of the module search path, because engines load their parts when they need them.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from potluck_optionlib.drafting import seccomp
from potluck_optionlib.drafting.settings import Limits

BREACH = 97
"""Exit status of a process that the hook ended."""
_REFUSED = (
    "socket.", "subprocess.", "ctypes.", "shutil.", "tempfile.", "http.", "urllib.", "ftplib.", "smtplib.", "imaplib.",
    "poplib.", "nntplib.", "telnetlib.", "pty.", "webbrowser.", "winreg.", "_winapi.", "msvcrt.", "syslog.", "mmap.",
    "sqlite3.", "fcntl.", "resource.", "signal.", "gc.", "os.", "glob.", "pathlib.",
    "sys.addaudithook", "sys.setprofile", "sys.settrace", "sys._current_frames", "sys.set_asyncgen_hooks",
    "code.__new__",
)  # fmt: skip
_CLOSED = (
    "_posixsubprocess", "pyarrow.fs", "pyarrow._fs", "pyarrow._hdfs", "pyarrow._s3fs", "pyarrow._gcsfs",
    "pyarrow._azurefs", "pyarrow.parquet", "pyarrow._parquet", "pyarrow.dataset", "pyarrow._dataset", "pyarrow.csv",
    "pyarrow._csv", "pyarrow.json", "pyarrow._json", "pyarrow.orc", "pyarrow._orc", "pyarrow.feather",
    "pyarrow._feather",
)  # fmt: skip
_NATIVE_FILES = frozenset({"OSFile", "MemoryMappedFile", "memory_map", "create_memory_map", "input_stream"})
_GRACE_S = 5
"""CPU seconds between the signal that names the cause and the one that cannot be held off."""
_HARMLESS = frozenset({"os.putenv", "os.unsetenv"})
_LISTING = frozenset(
    {"os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "glob.glob/2", "pathlib.Path.glob"}
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Breach = Callable[[str, str], None]


def lock(limits: Limits, seconds: float, breach: Breach) -> None:
    """Gives up everything; `breach(event, detail)` is called by the hook just before the process ends."""
    _limit(limits, seconds)
    roots = tuple({os.path.realpath(path) + os.sep for path in sys.path if path})
    seccomp.install()
    _forget()
    sys.addaudithook(_hook(roots, breach))


def _forget() -> None:
    """Takes away the modules that do natively, unseen by the hook, what it refuses; the game no longer needs them."""
    gone = {name: module for name, module in sys.modules.items() if _closed(name)}
    for name in gone:
        del sys.modules[name]
    found = {id(module) for module in gone.values()}
    for place, module in list(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in found or (place.startswith("pyarrow") and name in _NATIVE_FILES):
                delattr(module, name)


def _closed(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _CLOSED)


def _limit(limits: Limits, seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + seconds) + 1
    space = _address_space() + limits.memory_mb * 2**20
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + _GRACE_S),
        (resource.RLIMIT_AS, space, space),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        most = resource.getrlimit(kind)[1]
        cap = hard if most == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(kind, (min(soft, cap), cap))


def _address_space() -> int:
    """Bytes of address space in use."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()


def _hook(roots: Sequence[str], breach: Breach) -> Callable[[str, tuple[Any, ...]], None]:
    def inside(path: object) -> bool:
        if isinstance(path, int):
            return True
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        real = os.path.realpath(os.fsdecode(path)) + os.sep
        return any(real.startswith(root) for root in roots)

    def end(event: str, args: tuple[Any, ...]) -> None:
        breach(event, " ".join(str(arg)[:200] for arg in args[:2]))
        os._exit(BREACH)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = bool((flags or 0) & _WRITING) or any(sign in (mode or "") for sign in "wax+")
            if writes or not inside(path):
                end("open for writing" if writes else "open", args)
        elif event == "import":
            if _closed(str(args[0])):
                end(event, args)
        elif event in _LISTING:
            if not inside(args[0]):
                end(event, args)
        elif event.startswith(_REFUSED) and event not in _HARMLESS:
            end(event, args)

    return hook
