"""The command line of `wait`, checked before any request is made (spec/cli-runtime-and-wait.md section 3.4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ome.cli.errors import CliError
from ome.cli.evidence import objects

_PREDICATES = (
    "condition=Ready[=True|False|Unknown], rollout=stable|failed|rolled-back, migration=terminal, "
    "replicas=ready|current, runtime-sync=acknowledged, or held-revision=unheld"
)
PREDICATE = f"InvalidWaitPredicate: require {_PREDICATES}"
MIGRATION_ID = "InvalidMigrationRequestID: require canonical UUID only with migration=terminal"
SYNC_ID = "InvalidRuntimeSyncRequestID: require canonical v4 UUID with runtime-sync=acknowledged"
READY_REPLICAS = (
    "InvalidReadyReplicaFlags: require --component=engine|decoder|router and --replicas=N only with replicas=ready; "
    "N must be nonnegative"
)
CURRENT_REPLICAS = (
    "InvalidCurrentReplicaFlags: require --component=engine|decoder|router and positive --replicas=N; --ir-name and "
    "--ir-uid must be paired"
)
HELD_TARGET = (
    "InvalidHeldRevisionTarget: require --component, full --revision, --ir-name and --ir-uid only with "
    "held-revision=unheld"
)
TIMEOUT = "InvalidWaitTimeout: require positive duration no greater than 24h"
OUTPUT = "InvalidOutputFormat: supported table, wide, json, yaml"
FLAGS = "InvalidWaitFlags"
MAX_SECONDS = 24 * 3600.0

CONDITION = "condition"
ROLLOUT = "rollout"
MIGRATION = "migration"
REPLICAS_READY = "replicas=ready"
REPLICAS_CURRENT = "replicas=current"
RUNTIME_SYNC = "runtime-sync"
HELD_REVISION = "held-revision"

_FOR = {
    "condition=Ready": (CONDITION, "True"),
    "condition=Ready=True": (CONDITION, "True"),
    "condition=Ready=False": (CONDITION, "False"),
    "condition=Ready=Unknown": (CONDITION, "Unknown"),
    "rollout=stable": (ROLLOUT, "Succeeded"),
    "rollout=failed": (ROLLOUT, "Failed"),
    "rollout=rolled-back": (ROLLOUT, "RolledBack"),
    "migration=terminal": (MIGRATION, ""),
    "replicas=ready": (REPLICAS_READY, ""),
    "replicas=current": (REPLICAS_CURRENT, ""),
    "runtime-sync=acknowledged": (RUNTIME_SYNC, ""),
    "held-revision=unheld": (HELD_REVISION, ""),
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class WaitRequest(NamedTuple):
    """What to wait for. `wanted` is the state of a condition or rollout; `replicas` is None when the flag is not
    given.
    """

    service: str
    predicate: str
    wanted: str
    seconds: float
    component: str
    replicas: int | None
    request_id: str
    revision: str
    ir_name: str
    ir_uid: str


def _check_target(request: WaitRequest) -> None:
    """`--revision`, `--ir-name`, `--ir-uid`: only where they mean something, and complete there."""
    held, current = request.predicate == HELD_REVISION, request.predicate == REPLICAS_CURRENT
    if (request.revision and not held) or ((request.ir_name or request.ir_uid) and not (held or current)):
        raise CliError(HELD_TARGET)
    if not held:
        return
    full = f"{request.service}-{request.component}-"
    complete = (
        request.component in objects.COMPONENTS
        and request.revision.startswith(full)
        and objects.is_hash8(request.revision[len(full) :])
        and objects.is_subdomain(request.ir_name)
        and objects.is_safe_identity(request.ir_uid)
        and request.replicas is None
    )
    if not complete:
        raise CliError(HELD_TARGET)


def _check_replicas(request: WaitRequest) -> None:
    count, known = request.replicas, request.component in objects.COMPONENTS
    if request.predicate == REPLICAS_READY:
        if not known or count is None or count < 0:
            raise CliError(READY_REPLICAS)
    elif request.predicate == REPLICAS_CURRENT:
        paired = bool(request.ir_name) == bool(request.ir_uid)
        named = not request.ir_name or (
            objects.is_subdomain(request.ir_name) and objects.is_safe_identity(request.ir_uid)
        )
        if not known or count is None or count < 1 or not paired or not named:
            raise CliError(CURRENT_REPLICAS)
    elif request.predicate != HELD_REVISION and (count is not None or request.component):
        raise CliError(READY_REPLICAS)


def _check_request_id(request: WaitRequest) -> None:
    if request.predicate == RUNTIME_SYNC:
        if not _UUID4.fullmatch(request.request_id):
            raise CliError(SYNC_ID)
    elif request.predicate == MIGRATION:
        if not _UUID.fullmatch(request.request_id):
            raise CliError(MIGRATION_ID)
    elif request.request_id:
        raise CliError(MIGRATION_ID)


def check(
    service: str,
    predicate: str,
    seconds: float,
    output: str,
    component: str,
    replicas: int | None,
    request_id: str,
    revision: str,
    ir_name: str,
    ir_uid: str,
) -> WaitRequest:
    """The request, or the first flag error."""
    if not objects.is_subdomain(service):
        raise CliError("InvalidInferenceServiceName")
    if predicate not in _FOR:
        raise CliError(PREDICATE)
    kind, wanted = _FOR[predicate]
    request = WaitRequest(service, kind, wanted, seconds, component, replicas, request_id, revision, ir_name, ir_uid)
    _check_request_id(request)
    _check_replicas(request)
    _check_target(request)
    if not 0 < seconds <= MAX_SECONDS:
        raise CliError(TIMEOUT)
    if output not in ("table", "wide", "json", "yaml"):
        raise CliError(OUTPUT)
    return request
