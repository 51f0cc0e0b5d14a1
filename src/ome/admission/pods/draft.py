"""A pod that is being changed, step by step, and the JSON patch that came of it. Never changes the pod it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


class PodDenied(Exception):
    """The pod must not be admitted; the text says why."""


class PodDraft:
    def __init__(self, pod: Json) -> None:
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        self._annotations_before: dict[str, str] | None = metadata.get("annotations")
        self._spec_before: Json = spec
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.annotations: dict[str, str] = dict(self._annotations_before or {})
        self.spec: Json = dict(spec)

    # -- reading -----------------------------------------------------------------------------------------------------

    def asks(self, key: str) -> bool:
        return self.annotations.get(key) == "true"

    def container(self, name: str) -> Json | None:
        return next((entry for entry in self.spec.get("containers") or [] if entry.get("name") == name), None)

    # -- changing ----------------------------------------------------------------------------------------------------

    def set_container(self, name: str, changes: Json) -> None:
        """Replace members of the container of that name."""
        self.spec["containers"] = [
            {**entry, **changes} if entry.get("name") == name else entry for entry in self.spec.get("containers") or []
        ]

    def add_container(self, container: Json, *, init: bool) -> None:
        """At the end; a container of that name that is there already stays as it is."""
        field = "initContainers" if init else "containers"
        existing = self.spec.get(field) or []
        if all(entry.get("name") != container["name"] for entry in existing):
            self.spec[field] = [*existing, container]

    def add_volumes(self, volumes: Iterable[Json]) -> None:
        """Those whose name is not taken."""
        existing = self.spec.get("volumes") or []
        taken = {entry.get("name") for entry in existing}
        added = [volume for volume in volumes if volume["name"] not in taken]
        if added:
            self.spec["volumes"] = [*existing, *added]

    def add_mounts(self, container: str, mounts: Iterable[Json]) -> None:
        """Those whose path is not mounted yet."""
        existing = (self.container(container) or {}).get("volumeMounts") or []
        taken = {entry.get("mountPath") for entry in existing}
        added = [mount for mount in mounts if mount["mountPath"] not in taken]
        if added:
            self.set_container(container, {"volumeMounts": [*existing, *added]})

    def add_env(self, container: str, values: dict[str, str]) -> None:
        """Variables that the container does not set itself, in the order of their names."""
        existing = (self.container(container) or {}).get("env") or []
        taken = {entry.get("name") for entry in existing}
        added = [{"name": name, "value": value} for name, value in sorted(values.items()) if name not in taken]
        if added:
            self.set_container(container, {"env": [*existing, *added]})

    # -- result ------------------------------------------------------------------------------------------------------

    def patch(self) -> list[Json]:
        """One operation for each changed member of the pod's spec, one for its annotations."""
        operations: list[Json] = []
        if self.annotations != (self._annotations_before or {}):
            operations.append({"op": "add", "path": "/metadata/annotations", "value": self.annotations})
        for field, value in self.spec.items():
            if value is not self._spec_before.get(field):
                operations.append({"op": "add", "path": f"/spec/{field}", "value": value})
        return operations
