"""Nodes, scheduler, kubelet and endpoints of a simulated cluster: one step a virtual second, scripted by image name.

The words inside an image say how its container behaves: `missing` cannot be pulled (unless pushed), `crash` loops,
`never` runs but is never ready, `config` lacks its Secret, `badname` is no reference. Everything else is ready after
two seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ome.api.meta import parse_timestamp, timestamp

from .server import Json, Server, clone

READY_AFTER = timedelta(seconds=2)
LAST_CHANGE = timedelta(seconds=6)  # a container this old changes no more by itself
_GATE = "ome.io/serving"


class Nodes:
    """The world under the API server."""

    def __init__(self, server: Server, names: Iterable[str] = ("node-1", "node-2"), capacity: int = 8) -> None:
        self.server = server
        self.capacity = capacity
        self.pushed: set[str] = set()  # words of images that exist after all
        self.dead: set[str] = set()
        self.silent: set[str] = set()  # pods, by name or uid, whose kubelet never confirms their end
        self.frozen: set[str] = set()  # uids of pods whose status the story writes itself
        self.crashed: dict[str, int] = {}  # pod uid -> exits of its main container
        self._settled: dict[str, tuple[object, ...]] = {}  # pod uid -> what its last look, that changed nothing, saw
        self._routed: tuple[int, ...] = ()  # versions of what the endpoints were last made of
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self.server.create(
            "nodes",
            {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        )

    def lose(self, name: str) -> None:
        """The node dies with everything on it: after a while the control plane removes its pods."""
        self.dead.add(name)
        for pod in self._on(name):
            self.server.remove(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def silence(self, name: str) -> None:
        """The node is no longer heard of: it takes no pods, and its pods are unready from now on."""
        self.dead.add(name)
        since = timestamp(self.server.now())
        for pod in self._on(name):
            self.frozen.add(pod["metadata"]["uid"])
            new = clone(pod)
            self._conditions(new, {"Ready": ("False", "NodeNotReady")}, since)
            self.server.update(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]), new, status=True)

    def evict(self, name: str) -> None:
        """The control plane deletes the pods of a silent node; nobody there confirms it."""
        for pod in self._on(name):
            self.silent.add(pod["metadata"]["uid"])
            self.server.delete(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _on(self, name: str) -> list[Json]:
        return [pod for pod in self.server.list("pods") if pod["spec"].get("nodeName") == name]

    def crash(self, pod: Json) -> None:
        """The main container exits once and is restarted."""
        self.crashed[pod["metadata"]["uid"]] = self.crashed.get(pod["metadata"]["uid"], 0) + 1

    def step(self) -> None:
        """One second of scheduler, kubelets and endpoints."""
        pushed = frozenset(self.pushed)
        for pod in self.server.list("pods"):
            uid = pod["metadata"]["uid"]
            seen = (pod["metadata"]["resourceVersion"], self.crashed.get(uid, 0), pushed)
            if self._settled.get(uid) != seen and self._pod(pod):
                self._settled[uid] = seen
        made_of = self._versions()
        if made_of != self._routed:
            self._endpoints()
            self._routed = self._versions()

    def _versions(self) -> tuple[int, ...]:
        return tuple(self.server.touched(collection) for collection in ("pods", "services", "endpointslices"))

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _pod(self, pod: Json) -> bool:
        """One look at a pod; whether time alone will not change it any more."""
        meta = pod["metadata"]
        key = ("pods", meta["namespace"], meta["name"])
        gone_at = meta.get("deletionTimestamp")
        if gone_at and not self.silent.isdisjoint((meta["name"], meta["uid"])):
            return False
        if gone_at:
            if self.server.now() >= parse_timestamp(gone_at) or not pod["spec"].get("nodeName"):
                self.server.remove(key)
            return False
        if meta["uid"] in self.frozen:
            return False
        new = clone(pod)
        node = pod["spec"].get("nodeName") or self._place()
        if node is None:
            since = timestamp(self.server.now())
            self._conditions(new, {"PodScheduled": ("False", "Unschedulable")}, since)
            new["status"]["phase"] = "Pending"
        else:
            new["spec"]["nodeName"] = node
            self._run(new)
        if new != pod:
            self.server.update(key, new, status=True)
            return False
        return node is not None and all(
            self._age(status) > LAST_CHANGE for status in new["status"]["containerStatuses"]
        )

    def _age(self, status: Json) -> timedelta:
        return self.server.now() - parse_timestamp(status["_since"])

    def _place(self) -> str | None:
        """The live node with most room, or None."""
        used: dict[str, int] = {}
        for pod in self.server.list("pods"):
            used[pod["spec"].get("nodeName", "")] = used.get(pod["spec"].get("nodeName", ""), 0) + 1
        free = [
            (used.get(n["metadata"]["name"], 0), n["metadata"]["name"])
            for n in self.server.list("nodes")
            if n["metadata"]["name"] not in self.dead
        ]
        room = [(count, name) for count, name in free if count < self.capacity]
        return min(room)[1] if room else None

    def _run(self, pod: Json) -> None:
        now = self.server.now()
        since = timestamp(now)
        statuses = [self._container(pod, container, now) for container in pod["spec"]["containers"]]
        pod.setdefault("status", {})["containerStatuses"] = statuses
        ready = all(status["ready"] for status in statuses)
        pod["status"]["phase"] = "Running" if any("running" in s["state"] for s in statuses) else "Pending"
        pod["status"]["podIP"] = "198.18.0.1"
        gates = {c["type"]: c["status"] for c in pod["status"].get("conditions") or []}
        open_ = all(gates.get(g["conditionType"]) == "True" for g in pod["spec"].get("readinessGates") or [])
        wanted = {
            "PodScheduled": ("True", ""),
            "ContainersReady": ("True" if ready else "False", ""),
            "Ready": ("True" if ready and open_ else "False", ""),
        }
        self._conditions(pod, wanted, since)

    def _container(self, pod: Json, container: Json, now: datetime) -> Json:
        image = container["image"]
        uid = pod["metadata"]["uid"]
        exits = self.crashed.get(uid, 0)
        old = next(
            (s for s in (pod.get("status") or {}).get("containerStatuses") or [] if s["name"] == container["name"]), {}
        )
        status: Json = {
            "name": container["name"],
            "image": image,
            "imageID": image,
            "ready": False,
            "restartCount": exits,
            "state": {},
            "lastState": old.get("lastState") or {},
        }
        if exits > old.get("restartCount", exits):
            ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": timestamp(now)}
            status["lastState"] = {"terminated": ended}
        began = old.get("_since") if old.get("image") == image else None
        status["_since"] = began or timestamp(now)
        age = now - parse_timestamp(status["_since"])
        waiting = self._waiting(image, age)
        if waiting:
            status["state"] = {"waiting": {"reason": waiting, "message": f"by script: {waiting}"}}
        elif "never" in image or age < READY_AFTER:
            status["state"] = {"running": {"startedAt": status["_since"]}}
        else:
            status["state"] = {"running": {"startedAt": status["_since"]}}
            status["ready"] = True
        return status

    def _waiting(self, image: str, age: timedelta) -> str:
        if any(word in image for word in self.pushed):
            return ""
        if "missing" in image:
            return "ErrImagePull" if age < timedelta(seconds=5) else "ImagePullBackOff"
        if "config" in image:
            return "CreateContainerConfigError"
        if "badname" in image:
            return "InvalidImageName"
        if "crash" in image and age > timedelta(seconds=1):
            return "CrashLoopBackOff"
        return ""

    def _conditions(self, pod: Json, wanted: dict[str, tuple[str, str]], since: str) -> None:
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        for type_, (status, reason) in wanted.items():
            known = next((c for c in conditions if c["type"] == type_), None)
            fresh: dict[str, Any] = {"type": type_, "status": status, "lastTransitionTime": since}
            if reason:
                fresh["reason"] = reason
            if known is None:
                conditions.append(fresh)
            elif known["status"] != status:
                conditions[conditions.index(known)] = fresh

    # -- endpoints -----------------------------------------------------------------------------------------------------

    def _endpoints(self) -> None:
        pods = self.server.list("pods")
        for service in self.server.list("services"):
            meta = service["metadata"]
            selector = (service.get("spec") or {}).get("selector") or {}
            early = (service["spec"] or {}).get("publishNotReadyAddresses", False)
            endpoints = [
                _endpoint(pod, early)
                for pod in pods
                if pod["metadata"]["namespace"] == meta["namespace"]
                and pod.get("status", {}).get("podIP")
                and selector.items() <= (pod["metadata"].get("labels") or {}).items()
            ]
            key = ("endpointslices", meta["namespace"], meta["name"])
            known = self.server.objects.get(key)
            if known is None:
                labels = {"kubernetes.io/service-name": meta["name"]}
                head = {"name": meta["name"], "namespace": meta["namespace"], "labels": labels}
                self.server.create("endpointslices", {"metadata": head, "endpoints": endpoints})
            elif known["endpoints"] != endpoints:
                self.server.update(key, {**clone(known), "endpoints": endpoints})
        for endpoints_slice in self.server.list("endpointslices"):
            meta = endpoints_slice["metadata"]
            if self.server.get("services", meta["namespace"], meta["name"]) is None:
                self.server.remove(("endpointslices", meta["namespace"], meta["name"]))


def _endpoint(pod: Json, early: bool) -> Json:
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions") or []}
    going = bool(pod["metadata"].get("deletionTimestamp"))
    ready = early or (conditions.get("Ready") == "True" and not going)
    return {
        "addresses": ["198.18.0.1"],
        "conditions": {"ready": ready, "terminating": going},
        "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
    }
