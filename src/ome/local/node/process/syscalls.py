"""The Linux system calls that Python 3.11 does not offer, through libc. For the supervisor and its children only."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_NOATIME: Final = 1024
MS_NODIRATIME: Final = 2048
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MS_RELATIME: Final = 1 << 21
MNT_DETACH: Final = 2

PR_SET_PDEATHSIG: Final = 1
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_SIGCHLD: Final = 17

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _architecture() -> str:
    machine = platform.machine()
    if machine not in _PIVOT_ROOT:
        raise OSError(f"isolated pods are not supported on {machine}")
    return machine


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Enter the namespaces of a pidfd or a namespace file. Raises OSError."""
    _check(_libc.setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {target}")


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2). Raises OSError."""
    _check(_libc.umount2(target.encode(), flags), f"unmount {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root` (a mount point) the root and let go of the old one. Raises OSError."""
    os.chdir(new_root)
    _check(_libc.syscall(_PIVOT_ROOT[_architecture()], b".", b"."), "pivot_root")
    unmount(".", MNT_DETACH)
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Raises OSError."""
    raw = name.encode()
    _check(_libc.sethostname(raw, len(raw)), "sethostname")


def die_with_parent(signal: int) -> None:
    """Have the kernel send us this signal when our parent ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def fork_into(flags: int) -> int:
    """Like fork(2), the child in the new namespaces named by `flags` (a new pid namespace: as its process 1).

    For a single-threaded process whose child execs soon. Raises OSError.
    """
    return _check(_libc.syscall(_CLONE[_architecture()], flags | _SIGCHLD, 0, 0, 0, 0), "clone")
