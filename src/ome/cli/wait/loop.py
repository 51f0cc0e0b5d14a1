"""The loop of `wait`: a first look at once, then a watch or a look every five seconds, until the predicate holds or
the time is over.

spec/cli-runtime-and-wait.md section 3.2. The only part of `wait` that reads; what a look means is the predicate's
business.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ome.cli.app import App
from ome.cli.errors import DEADLINE_EXCEEDED, CliError
from ome.cli.evidence import objects
from ome.cli.reads import list_replicas
from ome.cli.session import Session, is_missing_api
from ome.cli.wait.observation import Counts, Ended, Observation, Predicate, Snapshot
from ome.kube import requests
from ome.kube.errors import ApiError, KubeError, TransportError
from ome.kube.resources import INFERENCE_SERVICES

POLL_SECONDS = 5.0
REWATCH_SECONDS = 1.0
MAX_GETS = 20_000
MAX_EVENTS = 100_000

ACQUISITION_FAILED = "AcquisitionFailed"


class _Finished(Exception):
    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Waiter:
    """One wait on one service."""

    def __init__(self, app: App, session: Session, name: str, predicate: Predicate) -> None:
        self._app, self._session, self._name, self._predicate = app, session, name, predicate
        self._counts = Counts()
        self._method = "InitialGET"
        self._fallback = False
        self._uid = ""
        self._version = ""
        self._last: Observation | None = None

    def run(self) -> Ended:
        """Waits to the end. Raises CliError with one of the texts of section 3.4."""
        started = self._app.time.monotonic()
        try:
            self._look("InitialGET")
            if self._predicate.watches:
                self._watch()
            else:
                self._poll()
        except _Finished as finished:
            outcome = finished.outcome
        except CliError as error:
            if str(error) != DEADLINE_EXCEEDED:
                raise
            outcome = "TimedOut"
        except KubeError as error:
            raise CliError(ACQUISITION_FAILED) from error
        elapsed = int((self._app.time.monotonic() - started) * 1000)
        last = self._last or self._predicate.absent()
        if outcome in ("Deleted", "Replaced"):
            gone = self._predicate.absent()
            last = gone if self._predicate.reads_replicas or gone.reason != "PredicateUnmet" else last
        return Ended(
            self._session.namespace, self._name, outcome, last, self._counts, self._method, self._fallback, elapsed
        )

    def _count(self, **more: int) -> None:
        self._counts = Counts(*(a + more.get(name, 0) for name, a in self._counts._asdict().items()))
        if self._counts.gets > MAX_GETS:
            raise CliError("AcquisitionBudgetExceeded")
        if self._counts.events > MAX_EVENTS:
            raise CliError("EventBudgetExceeded")

    def _look(self, method: str) -> None:
        """Read the service (and its replicas) and judge; ends the wait by raising when there is nothing more to wait
        for.
        """
        self._count(gets=1, polls=1 if method == "Poll" else 0)
        self._method = method
        try:
            service = self._session.get(INFERENCE_SERVICES, self._name, self._session.namespace)
        except ApiError as error:
            if error.status_code == 404 and not is_missing_api(error):
                raise _Finished("Deleted" if self._uid else "NotFound") from error
            raise
        self._check_identity(service)
        if not self._predicate.reads_replicas:
            self._judge(Snapshot(service))
            return
        listed = list_replicas(self._session, service)
        self._judge(Snapshot(service, listed.items, listed.truncated))

    def _check_identity(self, service: Mapping[str, Any]) -> None:
        identity = (objects.name(service), objects.namespace(service)) == (self._name, self._session.namespace)
        version, uid = objects.resource_version(service), objects.uid(service)
        if not identity or not objects.is_safe_identity(uid) or not objects.is_safe_identity(version):
            raise CliError("InvalidIdentity")
        if self._uid and uid != self._uid:
            raise _Finished("Replaced")
        self._uid, self._version = uid, version
        if objects.is_deleting(service):
            raise _Finished("Deleted")

    def _judge(self, snapshot: Snapshot) -> None:
        self._count(observations=1)
        self._last = self._predicate.observe(snapshot, self._app.now())
        if self._last.matched:
            raise _Finished("Matched")

    def _poll(self) -> None:
        while True:
            self._sleep(POLL_SECONDS)
            self._look("Poll")

    def _sleep(self, seconds: float) -> None:
        self._app.time.sleep(min(seconds, self._session.remaining()))
        self._session.remaining()

    def _watch(self) -> None:
        """Watch from the version that was read; without the permission poll, after an expired or ended watch read
        again.
        """
        while True:
            self._count(watches=1)
            try:
                self._follow()
            except ApiError as error:
                if error.status_code in (401, 403, 405):
                    self._fallback = True
                    self._poll()
                if error.status_code != 410:
                    raise
            except TransportError:
                # A watch may break at any time; the next read says whether the server is still there.
                pass
            self._sleep(REWATCH_SECONDS)
            self._look("RefreshGET")

    def _follow(self) -> None:
        left = self._session.remaining()
        request = requests.watch(
            INFERENCE_SERVICES,
            self._session.namespace,
            resource_version=self._version,
            field_selector=f"metadata.name={self._name}",
            timeout_seconds=max(1, math.ceil(left)),
        )
        for line in self._session.lines(request, seconds=left):
            if line.strip():
                self._take(json.loads(line))
            self._session.remaining()

    def _take(self, event: Any) -> None:
        kind, obj = objects.text(event, "type"), objects.mapping(event, "object")
        if kind == "ERROR":
            raise ApiError(
                objects.integer(obj, "code") or 500, objects.text(obj, "reason"), objects.text(obj, "message")
            )
        if kind == "BOOKMARK" or objects.name(obj) != self._name:
            return
        self._count(events=1)
        self._method = "Watch"
        if kind == "DELETED":
            raise _Finished("Deleted")
        self._check_identity(obj)
        self._judge(Snapshot(obj))
