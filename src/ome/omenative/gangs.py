"""PodGroups: one for each Instance of several pods, so that a scheduler places all of them or none.

`spec/omenative.md` section 12. Only where the PodGroup kind was served when the manager started; elsewhere nothing here
acts. A group is there before its pods, and goes after them. Pure; called by the passes and by `Work.create_missing`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ome.api.core import PodGroup
from ome.api.keys import POD_GROUP, TOPOLOGY_KEY
from ome.api.types.inference_replica import InstanceStatus

from . import names
from .actions import CreatePodGroup, DeletePodGroup, UpdatePodGroup
from .pods import owner_reference

if TYPE_CHECKING:
    from .work import Work

TERMINATING: Final = "PodGroupTerminating"
_DEFAULT_SCHEDULERS = ("", "default-scheduler")
_NO_GANGS: Final = (
    "pods name the default scheduler, which may not know PodGroups: the pods of an Instance may be placed one by one"
)


def name_of(work: Work, index: int) -> str:
    """`<isvc>-<component>-<index>`."""
    return f"{work.base}-{index}"


def group_of(work: Work, index: int) -> PodGroup | None:
    """The Instance's own group, terminating or not."""
    return work.groups.get(name_of(work, index))


def schedules(work: Work) -> bool:
    """Whether the replica's Instances have groups at all."""
    return bool(work.gang) and work.snapshot.gang_scheduling


def stands(work: Work, row: InstanceStatus) -> bool:
    """Whether the Instance's pods may be made: its group is there, or it needs none. Makes one that is missing."""
    if not schedules(work):
        return True
    group = group_of(work, row.index)
    if group is None:
        _create(work, row)
        return False
    if group.metadata.deleting:
        return False
    _put_back(work, group)
    return True


def waits(work: Work, index: int) -> bool:
    """Whether new pods of the Instance have to wait until an earlier group of its name is gone."""
    group = group_of(work, index)
    return schedules(work) and group is not None and group.metadata.deleting


def gone(work: Work, index: int) -> bool:
    """Whether the Instance's group is gone; one that is there is deleted."""
    group = group_of(work, index)
    if group is None:
        return True
    _delete(work, group)
    return False


def keep(work: Work) -> None:
    """Groups of running gangs: one that failed is replaced, one that was lost is made again, the rest is kept true."""
    if not schedules(work) or work.frozen:
        return
    for row in work.ordered():
        labelled = any(m.live and m.pod.metadata.labels.get(POD_GROUP) for m in work.pods(row.index))
        if row.phase == "Deleting" or not labelled:
            continue
        group = group_of(work, row.index)
        if group is None:
            _create(work, row)
        elif group.failed and not group.metadata.deleting:
            work.warning(row, "PodGroupReset", f"PodGroup {group.metadata.name} failed; it is replaced")
            _delete(work, group)
        elif not group.metadata.deleting:
            _put_back(work, group)


def sweep(work: Work) -> None:
    """Delete groups whose Instance is no more."""
    if not work.groups:
        return
    wanted = {name_of(work, index) for index in (*work.rows, *work.members)}
    for name, group in sorted(work.groups.items()):
        if name not in wanted:
            _delete(work, group)


def _create(work: Work, row: InstanceStatus) -> None:
    replica, name = work.replica, name_of(work, row.index)
    if name in work.touched_groups:
        return
    work.touched_groups.add(name)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": replica.metadata.namespace,
        "labels": {**names.selector(replica), names.LABEL_INDEX: str(row.index)},
        "ownerReferences": [owner_reference(replica)],
    }
    if replica.spec.topology_key:
        metadata["annotations"] = {TOPOLOGY_KEY: replica.spec.topology_key}
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": _spec(work)}
    work.actions.append(CreatePodGroup(name, body))
    if _scheduler(work) in _DEFAULT_SCHEDULERS and row.index == min(work.rows):
        told = work.once(row, "MaybeNoGangScheduler")
        if told is not None:
            work.warning(told, "MaybeNoGangScheduler", _NO_GANGS)


def _put_back(work: Work, group: PodGroup) -> None:
    """Keep the fields that we set; others may have more."""
    name, wanted = group.metadata.name, _spec(work)
    seconds = wanted.get("scheduleTimeoutSeconds")
    if (group.spec.min_member, group.spec.schedule_timeout_seconds) == (wanted["minMember"], seconds):
        return
    if name not in work.touched_groups:
        work.touched_groups.add(name)
        spec = {"minMember": wanted["minMember"], "scheduleTimeoutSeconds": seconds}
        work.actions.append(UpdatePodGroup(name, {"metadata": {"uid": group.metadata.uid}, "spec": spec}))


def _delete(work: Work, group: PodGroup) -> None:
    name = group.metadata.name
    if not group.metadata.deleting and name not in work.touched_groups:
        work.touched_groups.add(name)
        work.actions.append(DeletePodGroup(name, group.metadata.uid))


def _spec(work: Work) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": work.per_instance}
    timeout = _timeout(work)
    if timeout is not None:
        spec["scheduleTimeoutSeconds"] = int(timeout.total_seconds())
    return spec


def _timeout(work: Work) -> timedelta | None:
    """The readiness deadline inside the operator's bounds; the lower bound where there is no deadline."""
    timeout, bounds = work.strategy.ready_timeout, work.settings.gang_timeout
    if bounds is None:
        return timeout
    least, most = bounds
    return least if timeout is None else min(max(timeout, least), most)


def _scheduler(work: Work) -> str:
    leader = next((runner for runner in work.snapshot.runners if runner.name == names.LEADER), None)
    spec = (leader.template.get("spec") or {}) if leader is not None else {}
    return str(spec.get("schedulerName") or "")
