"""The file system that a container sees: the machine's own, with the pod's volumes where the pod wants them.

A mount needs a place to stand. Where the machine has none (`/models/x` on a laptop), the folders on the way are made
anew in a small memory file system whose other entries are the machine's. Runs in the container's own mount namespace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ome.local.node.process import syscalls
from ome.local.node.process.syscalls import MS_BIND, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT

_KEPT_FLAGS = (
    (os.ST_NOSUID, syscalls.MS_NOSUID),
    (os.ST_NODEV, syscalls.MS_NODEV),
    (os.ST_NOEXEC, syscalls.MS_NOEXEC),
    (os.ST_NOATIME, syscalls.MS_NOATIME),
    (os.ST_NODIRATIME, syscalls.MS_NODIRATIME),
    (os.ST_RELATIME, syscalls.MS_RELATIME),
)

# Devices by the dozen that no container has a use for, each of which would cost a mount.
_MACHINE_ONLY = re.compile(r"/dev/(tty(S)?\d+|vcs\w*|loop\d+|ram\d+|nbd\d+)")


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the machine and where the container sees it."""

    source: str
    target: str
    read_only: bool = False


def folders_to_make_anew(targets: Iterable[str], exists: Callable[[str], bool]) -> set[str]:
    """The machine's folders that lack something on the way to a target, `/` included. Pure.

    Such a folder is not shown as it is but made anew, its entries mounted one by one, so that what is missing can stand
    beside them.
    """
    found = {"/"}
    for target in targets:
        parts = PurePosixPath(target).parts[1:]
        for depth in range(1, len(parts)):
            folder = "/" + "/".join(parts[:depth])
            if not exists(folder):
                break
            if not exists("/" + "/".join(parts)):
                found.add(folder)
    return found


def enter(root: str, mounts: Sequence[Mount]) -> None:
    """Build the view at the empty folder `root` and make it the root of this process. Raises OSError."""
    # A link on the way (`/var/run`) would lead out of the view: the mount stands where the link leads.
    mounts = [replace(mount, target=os.path.realpath(mount.target)) for mount in mounts]
    syscalls.mount("none", "/", "", MS_REC | MS_PRIVATE)
    syscalls.mount("tmpfs", root, "tmpfs", 0, "mode=755")
    anew = folders_to_make_anew((mount.target for mount in mounts), os.path.exists)
    _populate("/", root, anew)
    for mount in sorted(mounts, key=lambda found: found.target.count("/")):
        _place(root + mount.target, mount)
    syscalls.pivot_root(root)


def _populate(folder: str, root: str, anew: set[str]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if _MACHINE_ONLY.fullmatch(entry.path):
                continue
            target = root + entry.path
            if entry.is_symlink():
                Path(target).symlink_to(Path(entry.path).readlink())
            elif entry.path in anew:
                Path(target).mkdir()
                _populate(entry.path, root, anew)
            elif entry.is_dir(follow_symlinks=False):
                Path(target).mkdir()
                syscalls.mount(entry.path, target, "", MS_BIND | MS_REC)
            else:
                Path(target).touch()
                syscalls.mount(entry.path, target, "", MS_BIND)


def _place(target: str, mount: Mount) -> None:
    if Path(mount.source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
        syscalls.mount(mount.source, target, "", MS_BIND | MS_REC)
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if not Path(target).exists():
            Path(target).touch()
        syscalls.mount(mount.source, target, "", MS_BIND)
    if mount.read_only:
        # Flags that the outer mount has may not be taken away in a user namespace: repeat them.
        have = os.statvfs(target).f_flag
        flags = sum(flag for bit, flag in _KEPT_FLAGS if have & bit)
        syscalls.mount("none", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
