"""The guarded-action protocol: limits, dry-run modes, preview, prompt, the one JSON patch, and its result.

spec/cli-runtime-and-wait.md section 4. Every writing command is built of these pieces; what may be written is each
command's decision.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ome.cli.actions.target import UNSAFE_VALUE, Refused
from ome.cli.app import App
from ome.cli.errors import CANCELED, DEADLINE_EXCEEDED, ActionConflict, CliError
from ome.cli.evidence import objects
from ome.cli.output.report import REPORT_API_VERSION, encode
from ome.cli.output.table import render_table
from ome.cli.output.text import cut, is_hostile
from ome.cli.session import Session
from ome.kube.errors import ApiError, KubeError
from ome.kube.resources import Resource

T = TypeVar("T")
Fields = Sequence[tuple[str, str]]

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

MAX_VALUE = 768
"""Characters of a previewed value: nobody confirms more than that by eye."""

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


def with_context(command: str, context: str) -> str:
    """The follow-up command, bound to the context that the action used."""
    return f"{command} --context={context}" if context else command


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


def preview_of(title: str, fields: Fields, lines: Sequence[str], *, wrapped: bool = False) -> str:
    """A whole preview, its values `wrapped` as in `preview_rows` or as they are.

    Raises Refused for a value that a terminal could show as another.
    """
    if any(len(value) > MAX_VALUE or is_hostile(value) for _, value in fields):
        raise Refused(UNSAFE_VALUE)
    rows = preview_rows(fields) if wrapped else [list(field) for field in fields]
    return f"{title}\n{render_table(('FIELD', 'VALUE'), rows)}" + "".join(f"{line}\n" for line in lines)


def preview_rows(fields: Fields) -> list[list[str]]:
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


def read_again(session: Session, read: Callable[[], T], before: T, essence: Callable[[T], Any], changed: str) -> None:
    """The second pass: a failed read or another essence conflicts; only the time limit or Ctrl-C is itself."""
    try:
        again = read()
    except KeyboardInterrupt as error:
        raise CliError(CANCELED) from error
    except (KubeError, CliError) as error:
        if str(error) == DEADLINE_EXCEEDED:
            raise
        session.remaining()
        raise ActionConflict(changed) from error
    if essence(again) != essence(before):
        raise ActionConflict(changed)


def send(
    session: Session,
    resource: Resource,
    target: Target,
    operations: list[dict[str, Any]],
    dry_run: str,
    *,
    rejected: str,
    failed: Callable[[BaseException], CliError],
    subresource: str = "",
) -> Any:
    """The one patch, sent once (section 4.1 step 5): the answer, or why there is none.

    Only a failed test is known to have stored nothing, which is `rejected`; `failed` makes the error of all else.
    """
    session.remaining()
    try:
        return session.json_patch(
            resource, target.name, target.namespace, operations, dry_run=dry_run == "server", subresource=subresource
        )
    except KubeError as error:
        if is_conflict(error):
            raise ActionConflict(rejected) from error
        raise failed(error) from error
    except (CliError, KeyboardInterrupt) as error:
        raise failed(error) from error


def unchanged(uid: str, resource_version: str) -> list[dict[str, Any]]:
    """The operations that let a patch through to exactly the object that was read."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version},
    ]


def annotation_path(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")


def guarded_annotation(obj: Mapping[str, Any], key: str, value: str) -> list[dict[str, Any]]:
    """The JSON patch that sets one annotation on exactly the object that was read (section 4.1 step 5)."""
    operations = unchanged(objects.uid(obj), objects.resource_version(obj))
    path = annotation_path(key)
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
