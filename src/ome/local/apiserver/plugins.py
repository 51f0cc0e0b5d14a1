"""Built-in admission of a default cluster: what pods and claims are given before they are stored.

ServiceAccounts and their tokens' volumes, tolerations, priorities, default classes, protection of volumes in use.
Limits are `limits.py`, quotas `quota.py`, addresses `network.py`. Each plug-in is a step of `admission.Admission`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ome.local.apiserver.admission import Attributes, Object
from ome.local.apiserver.core import Core
from ome.local.apiserver.errors import forbidden
from ome.local.apiserver.store import Event, EventType

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME: Final = "kube-api-access-"
TOKEN_SECONDS: Final = 3607
TOLERATION_SECONDS: Final = 300
PVC_FINALIZER: Final = "kubernetes.io/pvc-protection"
PV_FINALIZER: Final = "kubernetes.io/pv-protection"
PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
SYSTEM_PRIORITIES: Final = (
    ("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be "
     "moved to another node if necessary."),
    ("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current "
     "node."),
)  # fmt: skip
DEFAULT_STORAGE: Final = "storageclass.kubernetes.io/is-default-class"
DEFAULT_INGRESS: Final = "ingressclass.kubernetes.io/is-default-class"


class Step:
    """A plug-in that does nothing; the others override what they do."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def validate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return

    def before_commit(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        return


def is_new(attributes: Attributes, storage: str) -> bool:
    return attributes.operation == "CREATE" and attributes.type.storage == storage and not attributes.subresource


def refused(attributes: Attributes, obj: Object, message: str) -> Exception:
    name = str((obj.get("metadata") or {}).get("name") or "")
    return forbidden(attributes.type.plural, attributes.type.group, name, message)


class Accounts(Step):
    """Every pod runs as a ServiceAccount that exists, and finds its token."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if not is_new(attributes, "pods"):
            return
        spec = obj.setdefault("spec", {})
        if "kubernetes.io/config.mirror" in (obj["metadata"].get("annotations") or {}):
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self.core.read("serviceaccounts", attributes.namespace, name)
        if account is None:
            message = (
                f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
            )
            raise refused(attributes, obj, message)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.get("automountServiceAccountToken", True)
        if wanted:
            self._mount(spec)

    def _mount(self, spec: Object) -> None:
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        bare = [c for c in containers if not _mounts_at(c, TOKEN_PATH)]
        if not bare:
            return
        volumes = spec.setdefault("volumes", [])
        found = next((v["name"] for v in volumes if str(v.get("name", "")).startswith(TOKEN_VOLUME)), None)
        name = found or f"{TOKEN_VOLUME}{self.core.suffix()}"
        for container in bare:
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
        if found is None:
            volumes.append({"name": name, "projected": _token_source()})


def _mounts_at(container: Object, path: str) -> bool:
    return any(mount.get("mountPath") == path for mount in container.get("volumeMounts") or ())


def _token_source() -> Object:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 420,
    }


class Tolerations(Step):
    """A pod bears an unready or unreachable node for five minutes, unless it says otherwise."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if attributes.type.storage != "pods" or attributes.subresource:
            return
        spec = obj.setdefault("spec", {})
        given = spec.get("tolerations") or []
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            if not any(_tolerates(toleration, key) for toleration in given)
        ]
        if missing:
            spec["tolerations"] = [*given, *missing]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("effect") in (None, "", "NoExecute") and (
        toleration.get("key") == key or (not toleration.get("key") and toleration.get("operator") == "Exists")
    )


class Priorities(Step):
    """A pod's priority is that of its class."""

    def bootstrap(self) -> None:
        """Make the two classes that every cluster has."""
        type_ = self.core.registry.by_storage(PRIORITY_CLASSES)
        if type_ is None:
            return
        for name, value, text in SYSTEM_PRIORITIES:
            if self.core.get(type_, "", name) is None:
                obj = {
                    "metadata": {"name": name, "generation": 1},
                    "value": value,
                    "description": text,
                    "preemptionPolicy": "PreemptLowerPriority",
                }
                self.core.stamp(obj)
                self.core.create(type_, obj)

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if not is_new(attributes, "pods"):
            return
        spec = obj.setdefault("spec", {})
        name = spec.get("priorityClassName")
        found = self.core.read(PRIORITY_CLASSES, "", name) if name else self._default()
        if name and found is None:
            raise refused(attributes, obj, f"no PriorityClass with name {name} was found")
        value = found.get("value", 0) if found is not None else 0
        given = spec.get("priority")
        if given is not None and given != value:
            message = (
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {value} from the given PriorityClass name"
            )
            raise refused(attributes, obj, message)
        spec["priority"] = value
        if found is not None and not name:
            spec["priorityClassName"] = found["metadata"]["name"]
        policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        if spec.get("preemptionPolicy") not in (None, policy):
            message = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise refused(attributes, obj, message)
        spec["preemptionPolicy"] = policy

    def _default(self) -> Object | None:
        best: Object | None = None
        for record in self.core.store.collection(PRIORITY_CLASSES).all():
            if b'"globalDefault":true' not in record.body:
                continue
            found = record.parse()
            if best is None or found.get("value", 0) < best.get("value", 0):
                best = found
        return best


class RuntimeClasses(Step):
    """A pod's runtime class must exist."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if not is_new(attributes, "pods"):
            return
        spec = obj.setdefault("spec", {})
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self.core.read("runtimeclasses.node.k8s.io", "", name)
        if found is None:
            raise refused(attributes, obj, f'pod rejected: RuntimeClass "{name}" not found')
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead:
            spec["overhead"] = overhead


class DefaultClasses(Step):
    """A claim without a storage class, an ingress without a class get the default one, if there is one."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        if is_new(attributes, "persistentvolumeclaims"):
            self._fill(obj, "storageclasses.storage.k8s.io", DEFAULT_STORAGE, "storageClassName")
        annotations = obj["metadata"].get("annotations") or {}
        if is_new(attributes, "ingresses.networking.k8s.io") and "kubernetes.io/ingress.class" not in annotations:
            self._fill(obj, "ingressclasses.networking.k8s.io", DEFAULT_INGRESS, "ingressClassName")

    def _fill(self, obj: Object, classes: str, annotation: str, field: str) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get(field) is not None:
            return
        marked = [r for r in self.core.store.collection(classes).all() if annotation.encode() in r.body]
        names = [r.name for r in marked if (r.parse()["metadata"].get("annotations") or {}).get(annotation) == "true"]
        if names:
            spec[field] = names[0]


class Protection(Step):
    """Claims in use by pods and volumes bound to claims are not removed under their users."""

    def mutate(self, attributes: Attributes, obj: Object, old: Object | None) -> None:
        for storage, finalizer in (("persistentvolumeclaims", PVC_FINALIZER), ("persistentvolumes", PV_FINALIZER)):
            if is_new(attributes, storage):
                finalizers = obj["metadata"].setdefault("finalizers", [])
                if finalizer not in finalizers:
                    finalizers.append(finalizer)

    def hear(self, resource: str, event: Event) -> None:
        """After a commit: let go of what waits and is no longer used."""
        if resource == "persistentvolumeclaims" and event.type is not EventType.DELETED:
            self._claim(event.record.namespace, event.record.name)
        elif resource == "persistentvolumes" and event.type is not EventType.DELETED:
            self._release("persistentvolumes", "", event.record.name, PV_FINALIZER, _unbound)
        elif resource == "pods" and _ended(event):
            for volume in (event.record.parse().get("spec") or {}).get("volumes") or ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim:
                    self._claim(event.record.namespace, claim)

    def _claim(self, namespace: str, name: str) -> None:
        self._release(
            "persistentvolumeclaims", namespace, name, PVC_FINALIZER, lambda _: not self._used(namespace, name)
        )

    def _used(self, namespace: str, claim: str) -> bool:
        wanted = f'"claimName":"{claim}"'.encode()
        for record in self.core.store.collection("pods").all(namespace):
            if wanted in record.body and record.fields.get("status.phase") not in ("Succeeded", "Failed"):
                return True
        return False

    def _release(self, storage: str, namespace: str, name: str, finalizer: str, free: Callable[[Object], bool]) -> None:
        from ome.local.apiserver.writes import finished

        type_ = self.core.registry.by_storage(storage)
        record = self.core.get(type_, namespace, name) if type_ is not None else None
        if type_ is None or record is None or b'"deletionTimestamp"' not in record.body:
            return
        obj = record.parse()
        metadata = obj["metadata"]
        if finalizer not in (metadata.get("finalizers") or ()) or not free(obj):
            return
        metadata["finalizers"] = [f for f in metadata["finalizers"] if f != finalizer]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        if finished(obj):
            self.core.delete(type_, record, obj)
        else:
            self.core.update(type_, obj, record)


def _ended(event: Event) -> bool:
    return event.type is EventType.DELETED or event.record.fields.get("status.phase") in ("Succeeded", "Failed")


def _unbound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") != "Bound"


def steps(core: Core) -> tuple[Step, ...]:
    """The plug-ins that need no care of their own, in the order in which a default cluster runs them."""
    return Accounts(core), RuntimeClasses(core), Tolerations(core), DefaultClasses(core)
