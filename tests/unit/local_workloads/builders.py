"""Short ways to say what the tests need: `deployment(3).rolling("25%", 0)`, `pod("a").ready()`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ome.api.meta import ObjectMeta, OwnerReference, timestamp
from ome.local.objects import Object

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """A moment relative to NOW."""
    return NOW + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Build:
    """An object under construction; every method returns a changed copy."""

    name: str
    kind: str = ""
    namespace: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    created: datetime = NOW
    deleted: datetime | None = None
    owner: OwnerReference | None = None
    generation: int = 1
    finalizers: tuple[str, ...] = ()

    @property
    def uid(self) -> str:
        return f"uid-{self.kind}-{self.name}"

    def labelled(self, **labels: str) -> Build:
        return replace(self, labels={**self.labels, **labels})

    def annotated(self, annotations: dict[str, str]) -> Build:
        return replace(self, annotations={**self.annotations, **annotations})

    def having(self, **spec: Any) -> Build:
        return replace(self, spec={**self.spec, **spec})

    def showing(self, **status: Any) -> Build:
        return replace(self, status={**self.status, **status})

    def owned_by(self, owner: Object, kind: str) -> Build:
        reference = OwnerReference(kind=kind, name=owner.name, uid=owner.uid, controller=True)
        return replace(self, owner=reference)

    def made(self, seconds: float) -> Build:
        return replace(self, created=at(seconds))

    def deleting(self) -> Build:
        return replace(self, deleted=NOW)

    def finalized(self, *names: str) -> Build:
        return replace(self, finalizers=names)

    def on(self, node: str) -> Build:
        return self.having(nodeName=node)

    def condition(self, type_: str, status: str, *, since: float = 0, **more: Any) -> Build:
        old = [found for found in self.status.get("conditions", ()) if found["type"] != type_]
        moment = timestamp(at(since))
        new = {"type": type_, "status": status, "lastTransitionTime": moment, **more}
        return self.showing(conditions=[*old, new])

    def ready(self, *, since: float = -60) -> Build:
        return self.showing(phase="Running").condition("Ready", "True", since=since)

    def unready(self) -> Build:
        return self.showing(phase="Running").condition("Ready", "False")

    def build(self) -> Object:
        return Object(
            kind=self.kind,
            metadata=ObjectMeta(
                name=self.name,
                namespace=self.namespace,
                uid=self.uid,
                resource_version="7",
                generation=self.generation,
                creation_timestamp=self.created,
                deletion_timestamp=self.deleted,
                labels=self.labels,
                annotations=self.annotations,
                finalizers=self.finalizers,
                owner_references=(self.owner,) if self.owner else (),
            ),
            spec=self.spec,
            status=self.status,
        )


def pod(name: str, **labels: str) -> Build:
    return Build(
        name, "Pod", labels=labels or {"app": "web"}, spec={"containers": [{"name": "main", "image": "web:1"}]}
    )


def template(image: str = "web:1", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> Build:
    return Build(
        "web",
        "Deployment",
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            **spec,
        },
    )


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
