"""The guarded-action protocol: limits, dry-run modes, preview, prompt, the one JSON patch, and its result.

spec/cli-runtime-and-wait.md section 4. Every writing command is built of these pieces; what may be written is each
command's decision.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ome.cli.app import App
from ome.cli.errors import CANCELED, DEADLINE_EXCEEDED, CliError
from ome.cli.evidence import objects
from ome.cli.output.report import REPORT_API_VERSION, encode
from ome.cli.output.table import render_table
from ome.cli.output.text import cut
from ome.cli.session import Session
from ome.kube.errors import ApiError, KubeError

ACTION_SECONDS = 45.0
REQUEST_SECONDS = 10.0
DRY_RUNS = ("none", "client", "server")
OUTPUTS = ("table", "wide", "json", "yaml")
PROMPT = "Confirm this exact action? [y/N] "
NOT_CONFIRMED = "action not confirmed; noninteractive input requires --yes"
READ_FAILED = "required Kubernetes API request failed; check access and connectivity"
VALIDATED_LOCALLY = "Validated locally; no patch sent."
DRY_RUN_ACCEPTED = "API dry-run accepted; no changes persisted."
HINT = "Use -o json or -o yaml for full values."

_RESULT_CELL = 56
_PREVIEW_CELL = 54
_MAX_ANSWER = 1024


class Target(NamedTuple):
    """The object an action patches, as it was when it was read."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @classmethod
    def of(cls, kind: str, obj: Mapping[str, Any]) -> Target:
        return cls(kind, objects.namespace(obj), objects.name(obj), objects.uid(obj), objects.resource_version(obj))


class ActionResult(NamedTuple):
    """What an action did (section 4.4). `applied` says that the API server stored it, never that OME has acted."""

    collected_at: str
    action: str
    target: Target
    dry_run: str
    accepted: bool
    applied: bool
    message: str
    follow_up: str
    request_id: str = ""
    revision_hash: str = ""

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "apiVersion": REPORT_API_VERSION,
            "kind": "ActionResult",
            "collectedAt": self.collected_at,
            "action": self.action,
            "target": {
                "kind": self.target.kind,
                "namespace": self.target.namespace,
                "name": self.target.name,
                "uid": self.target.uid,
                "resourceVersion": self.target.resource_version,
            },
            "dryRun": self.dry_run,
            "requestID": self.request_id,
            "revisionHash": self.revision_hash,
            "accepted": self.accepted,
            "applied": self.applied,
            "message": self.message,
            "followUp": self.follow_up,
        }
        return {key: value for key, value in document.items() if value != ""}

    def rows(self) -> list[list[str]]:
        fields = (
            ("action", self.action),
            ("target", f"{self.target.kind}/{self.target.namespace}/{self.target.name}"),
            ("dry-run", self.dry_run),
            ("accepted", yes_no(self.accepted)),
            ("applied", yes_no(self.applied)),
            ("request-id", self.request_id),
            ("revision-hash", self.revision_hash),
            ("message", self.message),
            ("follow-up", self.follow_up),
            ("hint", HINT),
        )
        return [[name, cut(value, _RESULT_CELL) or "-"] for name, value in fields]


def yes_no(value: bool) -> str:
    return "Yes" if value else "No"


def outcome(dry_run: str, stored: str) -> tuple[bool, bool, str]:
    """(accepted, applied, message) of a finished action; `stored` is the message of a real run."""
    if dry_run == "client":
        return False, False, VALIDATED_LOCALLY
    if dry_run == "server":
        return True, False, DRY_RUN_ACCEPTED
    return True, True, stored


def write_result(app: App, result: ActionResult, output: str, failure: str) -> None:
    """The result to standard output; `failure` is the command's text for a write that did not work."""
    if output in ("json", "yaml"):
        text = encode(result.to_dict(), output)
    else:
        text = render_table(("FIELD", "VALUE"), result.rows(), app.width())
    try:
        app.out(text)
    except (OSError, ValueError) as error:
        raise CliError(failure) from error


def preview_rows(fields: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Preview values whole: an empty one is `<absent>`, a long one goes on in rows labelled `(continued)`.

    For values that come from the cluster; the fixed lines of a preview stand as they are.
    """
    rows = []
    for label, value in fields:
        value = value or "<absent>"
        rows.append([label, value[:_PREVIEW_CELL]])
        rows += [
            ["(continued)", value[at : at + _PREVIEW_CELL]] for at in range(_PREVIEW_CELL, len(value), _PREVIEW_CELL)
        ]
    return rows


def write_preview(app: App, text: str, failure: str) -> None:
    try:
        app.err(text)
    except (OSError, ValueError) as error:
        raise CliError(failure) from error


def confirm(app: App, session: Session, yes: bool) -> None:
    """Ask at the terminal, within what is left of the action's time; `--yes` skips only this."""
    if yes:
        return
    if not app.is_interactive():
        raise CliError(NOT_CONFIRMED)
    app.err(PROMPT)
    try:
        answer = _read_answer(app, session)
    except KeyboardInterrupt as error:
        app.err("\n")
        raise CliError(CANCELED) from error
    if answer is None or answer.strip().lower() not in ("y", "yes"):
        if answer is None:
            app.err("\n")
        raise CliError(NOT_CONFIRMED)


def _read_answer(app: App, session: Session) -> str | None:
    """One line from the terminal; None at its end. Raises when the time is over."""
    descriptor = app.stdin.fileno()
    collected = b""
    while b"\n" not in collected and len(collected) < _MAX_ANSWER:
        try:
            ready, _, _ = select.select([descriptor], [], [], session.remaining())
        except CliError:
            app.err("\n")
            raise
        if not ready:
            app.err("\n")
            raise CliError(DEADLINE_EXCEEDED)
        chunk = os.read(descriptor, 256)
        if not chunk:
            return None
        collected += chunk
    return collected.decode("utf-8", "replace")


def guarded_annotation(obj: Mapping[str, Any], key: str, value: str) -> list[dict[str, Any]]:
    """The JSON patch that sets one annotation on exactly the object that was read (section 4.1 step 5)."""
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": objects.uid(obj)},
        {"op": "test", "path": "/metadata/resourceVersion", "value": objects.resource_version(obj)},
    ]
    path = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
    present = objects.get(obj, "metadata", "annotations")
    if present is None:
        operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    previous = objects.annotation(obj, key)
    if previous is None:
        return [*operations, {"op": "add", "path": path, "value": value}]
    operations.append({"op": "test", "path": path, "value": previous})
    return [*operations, {"op": "replace", "path": path, "value": value}]


def is_conflict(error: KubeError) -> bool:
    """Whether the API server refused because a `test` of the patch failed: 409, 412, or its bare 422.

    A failed test is a 422 without details (observed on kube-apiserver 1.37); one with details is a validation error.
    """
    if not isinstance(error, ApiError):
        return False
    if error.status_code in (409, 412):
        return True
    return error.status_code == 422 and not error.details.get("name") and not error.details.get("causes")


def is_same_object(answer: Any, kind: str, target: Target) -> bool:
    """Whether the patch's answer is the object that was patched, with a version."""
    return (
        isinstance(answer, Mapping)
        and answer.get("kind") == kind
        and objects.namespace(answer) == target.namespace
        and objects.name(answer) == target.name
        and objects.uid(answer) == target.uid
        and objects.resource_version(answer) != ""
    )
