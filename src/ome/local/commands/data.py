"""The data directory of an embedded cluster: where everything lies, who holds it, and what it says of itself.

One process at a time: it holds a lock on the file `lock` for as long as it lives, and the kernel frees it however the
process ends. So there is no stale lock, and what `state.json` says counts only while the lock is held.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ome.local.commands.refusals import Refusal

VARIABLE: Final = "OME_LOCAL_DATA_DIR"


def default_folder() -> Path:
    """`OME_LOCAL_DATA_DIR`, else `$XDG_DATA_HOME/ome/local`, else `~/.local/share/ome/local`."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else usual_folder()


def usual_folder() -> Path:
    """Where a shell without `OME_LOCAL_DATA_DIR` looks."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "ome" / "local"


@dataclass(frozen=True, slots=True)
class DataDir:
    """The layout of a data directory."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "cluster.db"

    @property
    def certificates(self) -> Path:
        return self.root / "pki"

    @property
    def token(self) -> Path:
        return self.root / "pki" / "admin.token"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "cluster.log"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def stand_in(self) -> Path:
        """The files of a node stand-in that plays nodes of another cluster."""
        return self.root / "stand-in"

    @property
    def stand_in_lock(self) -> Path:
        """Held by the node stand-in that uses these files."""
        return self.stand_in / "lock"

    @property
    def urls(self) -> Path:
        """The loopback ports of Services whose pods are processes."""
        return self.root / "urls.json"

    @property
    def stand_in_urls(self) -> Path:
        """The same of the cluster whose nodes the stand-in plays."""
        return self.stand_in / "urls.json"

    @property
    def manager(self) -> Path:
        return self.root / "manager"

    @property
    def manager_log(self) -> Path:
        return self.root / "logs" / "manager.log"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    def prepare(self) -> None:
        """Make the folders. Raises Refusal when that is not possible."""
        try:
            for folder in (self.root, self.certificates, self.log.parent, self.manager):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            probe = self.root / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise Refusal(f"cannot write to the data directory {self.root}: {error.strerror or error}") from error

    def admin_token(self) -> str:
        """The administrator's bearer token, made once and kept."""
        try:
            known = self.token.read_text().strip()
        except FileNotFoundError:
            known = ""
        if known:
            return known
        import secrets  # loads OpenSSL, which commands that only look need not wait for

        made = secrets.token_urlsafe(32)
        write_private(self.token, made + "\n")
        return made

    def is_held(self) -> bool:
        """Whether a cluster process lives here."""
        return is_locked(self.lock)

    def read_state(self) -> dict[str, Any]:
        """What the living cluster process says of itself; empty when none lives here."""
        return read_json(self.state) if self.is_held() else {}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file; empty when there is none or it is not one."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner alone."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)


def take_lock(path: Path) -> int | None:
    """An open, locked file descriptor, or None when another process holds the lock. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held(data: DataDir) -> Iterator[None]:
    """Hold the data directory. Raises Refusal when another cluster does."""
    try:
        descriptor = take_lock(data.lock)
    except OSError as error:
        raise Refusal(f"cannot lock the data directory {data.root}: {error.strerror or error}") from error
    if descriptor is None:
        raise Refusal(already_running(data))
    data.state.unlink(missing_ok=True)  # of a process that was killed: its number may be another program's by now
    try:
        yield
    finally:
        data.state.unlink(missing_ok=True)
        os.close(descriptor)


def already_running(data: DataDir) -> str:
    """One line about the cluster that holds the directory."""
    state = read_json(data.state)
    where = f" at {state['server']}" if state.get("server") else ""
    pid = f" (process {state['pid']})" if state.get("pid") else ""
    return f"a cluster is already running in {data.root}{where}{pid}; `ome local down` stops it"
