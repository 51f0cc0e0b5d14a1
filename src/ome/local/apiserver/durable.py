"""Durability: every acknowledged write is in SQLite (WAL) before its answer goes out.

Commits of one turn of the event loop share a transaction. With synchronous NORMAL a write survives the death of the
process; FULL survives the death of the machine. Events are not kept: after a restart older watches must list anew.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Final

from ome.local.apiserver.store import Event, EventType, Store

JUMP: Final = 1000
"""Versions skipped at a start, so that none that a client may have seen unacknowledged is ever given out again."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, rv INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL);
"""
_PUT: Final = (
    "INSERT INTO objects (resource, namespace, name, rv, body) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (resource, namespace, name) DO UPDATE SET rv = excluded.rv, body = excluded.body"
)
_DROP: Final = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_COUNT: Final = (
    "INSERT INTO counter (id, revision) VALUES (1, ?) "
    "ON CONFLICT (id) DO UPDATE SET revision = max(revision, excluded.revision)"
)


class Database:
    """The file behind a store. Load it once, then attach it; `settled()` is what a write waits for."""

    def __init__(self, path: Path, *, machine_safe: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if machine_safe else 'NORMAL'}")
        self._connection.executescript(_SCHEMA)
        self._pending: list[tuple[str, Event]] = []
        self._waiting: asyncio.Future[None] | None = None

    def rows(self) -> tuple[int, dict[str, list[tuple[str, str, int, bytes]]]]:
        """(revision, rows by resource): (namespace, name, rv, body)."""
        found = self._connection.execute("SELECT revision FROM counter").fetchone()
        revision = int(found[0]) if found else 0
        rows: dict[str, list[tuple[str, str, int, bytes]]] = defaultdict(list)
        for resource, namespace, name, rv, body in self._connection.execute(
            "SELECT resource, namespace, name, rv, body FROM objects"
        ):
            revision = max(revision, rv)
            rows[resource].append((namespace, name, rv, bytes(body)))
        return revision, rows

    def attach(self, store: Store) -> None:
        """Write every later commit of the store."""
        store.on_commit(self._hear)
        store.on_rewrite(self._hear)

    def _hear(self, resource: str, event: Event) -> None:
        self._pending.append((resource, event))
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        pending, waiting = self._pending, self._waiting
        self._pending, self._waiting = [], None
        if not pending:
            return
        try:
            self._write(pending)
        except sqlite3.Error as error:
            # Memory has these commits already: they are written with the next one, or never acknowledged.
            self._pending = pending + self._pending
            if waiting is not None:
                waiting.set_exception(error)
                waiting.exception()
            return
        if waiting is not None:
            waiting.set_result(None)

    def _write(self, pending: list[tuple[str, Event]]) -> None:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            for resource, event in pending:
                record = event.record
                if event.type is EventType.DELETED:
                    connection.execute(_DROP, (resource, record.namespace, record.name))
                else:
                    connection.execute(_PUT, (resource, record.namespace, record.name, record.rv, record.body))
            connection.execute(_COUNT, (max(event.rv for _, event in pending),))
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:  # a full disk has rolled it back already
                connection.execute("ROLLBACK")
            raise

    async def settled(self) -> None:
        """Wait until everything committed so far is on disk. Raises sqlite3.Error when it cannot be."""
        waiting = self._waiting
        if waiting is not None:
            await asyncio.shield(waiting)

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        self._flush()
        self._connection.close()
