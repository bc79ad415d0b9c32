"""What the kernel refuses to the child process: starting programs, sockets, and whatever changes a file.

The audit hook of `jail.py` sees what Python does; native code of a library (Arrow's file systems, say) does not tell
it. This filter binds native code too, all threads and root. Reading is left to the hook, for engines load their parts
late; threads stay allowed. It exists for Linux on x86-64; elsewhere `install` does nothing and says so.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_ARCH = 0xC000003E
_FOREIGN = 0x40000000
"""Numbers from here on are those of another calling convention."""
_SECCOMP, _FILTER_MODE, _ALL_THREADS = 317, 1, 1
_NO_NEW_PRIVS = 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD = 0x10000
_REFUSED = {
    "socket": 41, "connect": 42, "bind": 49, "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59, "kill": 62,
    "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101, "setpgid": 109, "setsid": 112,
    "mknod": 133, "setrlimit": 160, "mount": 165, "mkdirat": 258, "mknodat": 259, "fchownat": 260, "unlinkat": 263,
    "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268, "process_vm_writev": 311, "renameat2": 316,
    "execveat": 322, "pidfd_send_signal": 424, "io_uring_setup": 425, "openat2": 437, "fchmodat2": 452,
}  # fmt: skip
_CLONE, _CLONE3, _OPEN, _OPENAT = 56, 435, 2, 257


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install() -> bool:
    """Binds this process for good; False where there is no filter for this system. Raises OSError."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64" or sys.maxsize < 2**32:
        return False
    code = b"".join(_filter())
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    number, zero = ctypes.c_long, ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) or libc.syscall(
        number(_SECCOMP), number(_FILTER_MODE), number(_ALL_THREADS), ctypes.byref(program)
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")
    return True


def _filter() -> list[bytes]:
    refuse, allow = _line(_RETURN, _ERROR | errno.EPERM), _line(_RETURN, _ALLOW)
    lines = [
        _line(_LOAD, _MACHINE), _line(_EQUAL, _ARCH, 1, 0), refuse,
        _line(_LOAD, _NUMBER), _line(_AT_LEAST, _FOREIGN, 0, 1), refuse,
        _line(_EQUAL, _CLONE3, 0, 1), _line(_RETURN, _ERROR | errno.ENOSYS),
    ]  # fmt: skip
    for number in _REFUSED.values():
        lines += [_line(_EQUAL, number, 0, 1), refuse]
    for number, argument in ((_OPEN, 1), (_OPENAT, 2)):
        flags = _line(_LOAD, _ARGUMENTS + 8 * argument)
        lines += [_line(_EQUAL, number, 0, 4), flags, _line(_ANY_BIT, _WRITING, 0, 1), refuse, allow]
    thread = _line(_LOAD, _ARGUMENTS)
    return [*lines, _line(_EQUAL, _CLONE, 0, 3), thread, _line(_ANY_BIT, _CLONE_THREAD, 1, 0), refuse, allow]


def _line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; the jumps skip that many lines."""
    return struct.pack("=HBBI", code, then, otherwise, value)
