"""managedFields of ordinary writes, and server-side apply."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ome.local.apiserver import kinds, ownership, schema
from ome.local.apiserver.errors import Problem

from .support import CREATED, NOW, PROPERTY, context, identified, pod

Object = dict[str, Any]


class Stored:
    """One object in a store of one kind, written as the pipeline writes it."""

    def __init__(self, group: str, kind: str) -> None:
        self.group, self.kind = group, kind
        self.strategy = kinds.strategy(group, "v1", kind)
        self.live: Object | None = None

    def _context(self, manager: str, subresource: str = "") -> ownership.Context:
        return context(self.group, "v1", self.kind, manager, subresource=subresource)

    def _ready(self, body: Object) -> Object:
        obj, _ = self.strategy.decode(body)
        identified(obj, self.group, "v1", self.kind)
        self.strategy.default(obj)
        return obj

    def _keep(self, obj: Object, managed: list[Object]) -> None:
        obj["metadata"].pop("managedFields", None)
        if managed:
            obj["metadata"]["managedFields"] = managed
        self.live = obj

    def put(self, body: Object, manager: str = "user", subresource: str = "") -> None:
        obj = self._ready(copy.deepcopy(body))
        self._keep(obj, ownership.record_update(self.live, obj, self._context(manager, subresource)))

    def change(self, manager: str = "user", subresource: str = "", **fields: Any) -> None:
        assert self.live is not None
        self.put({**copy.deepcopy(self.live), **fields}, manager, subresource)

    def apply(self, body: Object, manager: str = "one", *, force: bool = False) -> None:
        sent = {"apiVersion": f"{self.group}/v1" if self.group else "v1", "kind": self.kind, **body}
        before = copy.deepcopy((self.live, sent))
        merged, managed = ownership.apply(self.live, sent, self._context(manager), force=force)
        assert before == (self.live, sent)
        self._keep(self._ready(merged), managed)

    def fields(self, manager: str, operation: str = "") -> Any:
        """What a manager owns; None when it is not listed."""
        assert self.live is not None
        for entry in self.live["metadata"].get("managedFields", []):
            if entry["manager"] == manager and operation in ("", entry["operation"]):
                return entry["fieldsV1"]
        return None

    @property
    def managers(self) -> list[str]:
        assert self.live is not None
        return [entry["manager"] for entry in self.live["metadata"].get("managedFields", [])]


def config_map(labels: dict[str, Any] | None = None, **data: Any) -> Object:
    meta: Object = {"name": "a", "namespace": "ns"}
    if labels is not None:
        meta["labels"] = labels
    return {"metadata": meta, "data": data} if data else {"metadata": meta}


@pytest.fixture
def stored() -> Stored:
    return Stored("", "ConfigMap")


def test_a_created_object_belongs_to_its_creator(stored: Stored) -> None:
    stored.put(config_map({"a": "b"}, k="v"))
    assert stored.live is not None
    assert stored.live["metadata"]["managedFields"] == [
        {
            "manager": "user",
            "operation": "Update",
            "apiVersion": "v1",
            "time": CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            },
        }
    ]


def test_the_fields_of_a_pod() -> None:
    stored = Stored("", "Pod")
    body = pod(
        containers=[
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    )
    body["metadata"]["finalizers"] = ["example.com/z"]
    stored.put(body)
    port = {".": {}, "f:containerPort": {}, "f:protocol": {}}
    assert stored.fields("user") == {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"example.com/z"': {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:env": {
                        ".": {},
                        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:valueFrom": {".": {}, "f:fieldRef": {}}},
                    },
                    "f:image": {},
                    "f:imagePullPolicy": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        'k:{"containerPort":80,"protocol":"TCP"}': port,
                        'k:{"containerPort":80,"protocol":"UDP"}': port,
                    },
                    "f:resources": {},
                    "f:terminationMessagePath": {},
                    "f:terminationMessagePolicy": {},
                    "f:volumeMounts": {".": {}, 'k:{"mountPath":"/v"}': {".": {}, "f:mountPath": {}, "f:name": {}}},
                }
            },
            "f:dnsPolicy": {},
            "f:enableServiceLinks": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
            "f:volumes": {
                ".": {},
                'k:{"name":"v"}': {".": {}, "f:emptyDir": {".": {}, "f:sizeLimit": {}}, "f:name": {}},
            },
        },
    }


def test_repeated_elements_are_owned_as_one() -> None:
    stored = Stored("", "Pod")
    stored.put(pod(containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]))
    assert stored.fields("user")["f:spec"]["f:containers"] == {'k:{"name":"c"}': {}}
    stored.change("other", metadata={"name": "p", "labels": {"a": "b"}})
    assert stored.fields("user")["f:spec"]["f:containers"] == {'k:{"name":"c"}': {}}


def test_who_changes_a_field_takes_it(stored: Stored) -> None:
    stored.put(config_map(k="v", x="y"))
    stored.change("other", data={"k": "w", "x": "y"})
    assert stored.fields("user") == {"f:data": {".": {}, "f:x": {}}}
    assert stored.fields("other") == {"f:data": {"f:k": {}}}


def test_what_is_removed_belongs_to_nobody(stored: Stored) -> None:
    stored.put(config_map({"a": "b"}, k="v"))
    stored.change("other", data={})
    assert stored.fields("user") == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    assert stored.managers == ["user"]


def test_a_write_that_changes_nothing_changes_no_entry(stored: Stored) -> None:
    stored.put(config_map(k="v"))
    assert stored.live is not None
    before = copy.deepcopy(stored.live["metadata"]["managedFields"])
    stored.change("other")
    assert stored.live["metadata"]["managedFields"] == before


def test_a_status_is_owned_through_its_own_door() -> None:
    stored = Stored("", "Pod")
    stored.put(pod())
    stored.change("kubelet", "status", status={"phase": "Running"})
    assert stored.fields("kubelet") == {"f:status": {"f:phase": {}}}
    stored.change("user", status={"phase": "Failed"})
    assert "f:status" not in stored.fields("user")


def test_the_tenth_updater_is_the_last_to_be_told_apart(stored: Stored) -> None:
    for number in range(12):
        data = {f"k{index}": "v" for index in range(number + 1)}
        if stored.live is None:
            stored.put(config_map(**data), f"m{number:02}")
        else:
            stored.change(f"m{number:02}", data=data)
    assert len(stored.managers) == 10
    assert stored.managers[0] == "ancient-changes"
    assert stored.fields("ancient-changes") == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}


def test_a_client_may_rewrite_who_owns_what(stored: Stored) -> None:
    stored.put(config_map(k="v"))
    assert stored.live is not None
    entries = copy.deepcopy(stored.live["metadata"]["managedFields"])
    entries[0].update(manager="migrated", operation="Apply")
    body = copy.deepcopy(stored.live)
    body["metadata"]["managedFields"] = entries
    stored.put(body, "tool")
    assert stored.managers == ["migrated"]


def test_forgotten_ownership_returns_with_the_first_apply(stored: Stored) -> None:
    stored.put(config_map(k="put"))
    assert stored.live is not None
    body = copy.deepcopy(stored.live)
    body["metadata"]["managedFields"] = [{}]
    stored.put(body)
    assert stored.managers == []
    stored.change(data={"k": "put", "n": "new"})
    assert stored.managers == []
    with pytest.raises(Problem) as caught:
        stored.apply(config_map(k="again"))
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k'
    )


def test_an_applied_object_belongs_to_its_applier(stored: Stored) -> None:
    stored.apply(config_map({"l": "1"}, k="v", x="y"))
    assert stored.fields("one") == {"f:data": {"f:k": {}, "f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}


def test_the_same_value_is_shared(stored: Stored) -> None:
    stored.apply(config_map(k="v", x="y"))
    stored.apply(config_map(k="v"), "two")
    assert stored.fields("one") == {"f:data": {"f:k": {}, "f:x": {}}}
    assert stored.fields("two") == {"f:data": {"f:k": {}}}


CONFLICTS: dict[str, tuple[Object, str]] = {
    "one": (config_map(k="w"), 'Apply failed with 1 conflict: conflict with "one": .data.k'),
    "several": (
        config_map({"l": "2"}, k="w", x="z"),
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.k\n- .data.x\n- .metadata.labels.l',
    ),
}


@pytest.mark.parametrize("sentence", CONFLICTS)
def test_another_value_is_a_conflict(stored: Stored, sentence: str) -> None:
    body, message = CONFLICTS[sentence]
    stored.apply(config_map({"l": "1"}, k="v", x="y"))
    with pytest.raises(Problem) as caught:
        stored.apply(body, "two")
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "Conflict", message)
    assert caught.value.details is not None
    assert caught.value.details["causes"][0] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "one"',
        "field": ".data.k",
    }


def test_conflicts_name_version_and_subresource() -> None:
    stored = Stored("apps", "Deployment")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "d", "namespace": "ns"}
    stored.put({"metadata": meta, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
    assert stored.live is not None
    stored.change("scaler", "scale", spec={**stored.live["spec"], "replicas": 3})
    with pytest.raises(Problem) as caught:
        stored.apply({"metadata": meta, "spec": {"replicas": 5, "paused": True}})
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas'
    )


def scaled(*replicas: int) -> Stored:
    stored = Stored("apps", "Deployment")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 1}
    stored.put({"metadata": {"name": "d", "namespace": "ns"}, "spec": spec})
    for number in replicas:
        assert stored.live is not None
        stored.change("scaler", "scale", spec={**stored.live["spec"], "replicas": number})
    return stored


def test_who_scales_owns_the_replicas_at_no_time() -> None:
    stored = scaled(3)
    assert stored.live is not None
    entry = next(entry for entry in stored.live["metadata"]["managedFields"] if entry["manager"] == "scaler")
    assert entry == {
        "manager": "scaler",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }


def test_who_scales_to_zero_owns_nothing_and_nobody_else_does() -> None:
    stored = scaled(3, 0)
    assert stored.managers == ["user"]
    assert "f:replicas" not in stored.fields("user")["f:spec"]


def test_force_takes(stored: Stored) -> None:
    stored.apply(config_map(k="v", x="y"))
    stored.apply(config_map(k="w"), "two", force=True)
    assert stored.live is not None
    assert stored.live["data"] == {"k": "w", "x": "y"}
    assert stored.fields("one") == {"f:data": {"f:x": {}}}


def test_what_is_left_out_goes(stored: Stored) -> None:
    stored.apply(config_map({"l": "1"}, k="v", x="y"))
    stored.apply(config_map(k="v"))
    assert stored.live is not None
    assert (stored.live["data"], "labels" in stored.live["metadata"]) == ({"k": "v"}, False)
    assert stored.live["metadata"]["name"] == "a"


def test_what_is_left_out_stays_when_another_owns_it(stored: Stored) -> None:
    stored.apply(config_map(k="v", x="y"))
    stored.apply(config_map(x="y"), "two")
    stored.apply(config_map(k="v"))
    assert stored.live is not None
    assert stored.live["data"] == {"k": "v", "x": "y"}


def test_an_empty_configuration_leaves_no_entry(stored: Stored) -> None:
    stored.put(config_map(k="v"))
    stored.apply(config_map())
    assert stored.managers == ["user"]


def test_an_empty_map_is_owned_and_a_null_too(stored: Stored) -> None:
    stored.apply(config_map({}))
    assert stored.fields("one") == {"f:metadata": {"f:labels": {}}}
    stored.apply(config_map({"x": None}))
    assert stored.fields("one") == {"f:metadata": {"f:labels": {"f:x": {}}}}
    assert stored.live is not None
    assert stored.live["metadata"]["labels"] == {"x": ""}


def stateful_set(containers: list[Object], **spec: Any) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, **spec}}
    return {"metadata": {"name": "r", "namespace": "ns"}, "spec": {"template": template}}


def containers_of(stored: Stored) -> list[Object]:
    assert stored.live is not None
    found: list[Object] = stored.live["spec"]["template"]["spec"]["containers"]
    return found


@pytest.fixture
def keyed() -> Stored:
    stored = Stored("apps", "StatefulSet")
    container = {"name": "c", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}]}
    stored.apply(stateful_set([container], nodeSelector={"n": "s"}, tolerations=[{"key": "k"}]))
    return stored


def test_lists_merge_by_their_keys(keyed: Stored) -> None:
    container = {"name": "c", "ports": [{"containerPort": 81, "protocol": "UDP"}]}
    keyed.apply(stateful_set([container, {"name": "d", "image": "j"}]), "two")
    assert [item["name"] for item in containers_of(keyed)] == ["c", "d"]
    assert [(port["containerPort"], port["protocol"]) for port in containers_of(keyed)[0]["ports"]] == [
        (80, "TCP"),
        (81, "UDP"),
    ]


def test_a_default_of_the_key_stands_in(keyed: Stored) -> None:
    owned = keyed.fields("one")["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert owned["f:ports"] == {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}


def test_the_applied_order_wins(keyed: Stored) -> None:
    keyed.apply(stateful_set([{"name": "z", "image": "zz"}, {"name": "d", "image": "j"}, {"name": "c"}]), "two")
    assert [item["name"] for item in containers_of(keyed)] == ["z", "d", "c"]


def test_who_leaves_takes_along_only_its_own(keyed: Stored) -> None:
    before = copy.deepcopy(containers_of(keyed))
    container = {"name": "c", "env": [{"name": "B", "value": "2"}]}
    keyed.apply(stateful_set([container, {"name": "d", "image": "j"}]), "two")
    keyed.apply({"metadata": {"name": "r", "namespace": "ns"}}, "two")
    assert containers_of(keyed) == before
    assert keyed.managers == ["one"]


ATOMIC: dict[str, tuple[Object, str]] = {
    "a list of texts": (
        stateful_set([{"name": "c", "args": ["y"]}]),
        '.spec.template.spec.containers[name="c"].args',
    ),
    "a list without keys": (stateful_set([], tolerations=[{"key": "l"}]), ".spec.template.spec.tolerations"),
    "an atomic map": (stateful_set([], nodeSelector={"m": "t"}), ".spec.template.spec.nodeSelector"),
}


@pytest.mark.parametrize("sentence", ATOMIC)
def test_atomic_parts_are_one_whole(keyed: Stored, sentence: str) -> None:
    body, path = ATOMIC[sentence]
    with pytest.raises(Problem) as caught:
        keyed.apply(body, "two")
    assert caught.value.message == f'Apply failed with 1 conflict: conflict with "one": {path}'


REFUSED: dict[str, tuple[str, Object, str]] = {
    "an unknown field": (
        "ConfigMap",
        {"metadata": {"name": "a"}, "nothing": 1},
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nothing: field not declared in schema",
    ),
    "a wrong type": (
        "ReplicaSet",
        {"metadata": {"name": "r"}, "spec": {"replicas": "many"}},
        "failed to create typed patch object (/r; apps/v1, Kind=ReplicaSet): .spec.replicas: expected numeric (int or "
        "float), got string",
    ),
    "a repeated key": (
        "ReplicaSet",
        {"metadata": {"name": "r"}, "spec": {"template": {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}}}},
        "failed to create typed patch object (/r; apps/v1, Kind=ReplicaSet): .spec.template.spec.containers: duplicate "
        'entries for key [name="c"]',
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_configuration_must_fit_the_type(sentence: str) -> None:
    kind, body, message = REFUSED[sentence]
    stored = Stored("apps" if kind == "ReplicaSet" else "", kind)
    with pytest.raises(Problem) as caught:
        stored.apply(body)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (500, "", message)


def test_a_configuration_carries_no_managed_fields(stored: Stored) -> None:
    body = config_map(k="v")
    body["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(Problem) as caught:
        stored.apply(body)
    assert (caught.value.code, caught.value.message) == (400, "metadata.managedFields must be nil")


LAST = "kubectl.kubernetes.io/last-applied-configuration"


def test_kubectl_may_take_what_it_applied_from_the_client_side(stored: Stored) -> None:
    body = config_map(k="v")
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}'
    body["metadata"]["annotations"] = {LAST: text}
    stored.put(body, "kubectl-client-side-apply")
    stored.apply(config_map(k="w"), "kubectl")
    assert stored.live is not None
    assert stored.live["data"] == {"k": "w"}
    assert '"k":"w"' in stored.live["metadata"]["annotations"][LAST]
    with pytest.raises(Problem):
        stored.apply(config_map(k="x"), "other")


CUSTOM = schema.compile(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "integer"}}}},
                    "raw": {"x-kubernetes-preserve-unknown-fields": True},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                },
            }
        },
    }
)


def custom(manager: str) -> ownership.Context:
    return ownership.Context(manager, "example.com/v1", CUSTOM.type, NOW, {"metadata": {}})


def test_a_custom_object_is_owned_by_its_schema() -> None:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "f"},
        "spec": {"a": "x", "list": [{"q": 1}], "raw": {"k": None, "deep": {"x": 1}}, "set": ["b"]},
    }
    merged, managed = ownership.apply(None, body, custom("m"), force=False)
    assert merged["spec"] == body["spec"]
    assert managed[0]["fieldsV1"] == {
        "f:spec": {
            "f:a": {},
            "f:list": {},
            "f:raw": {"f:k": {}, "f:deep": {".": {}, "f:x": {}}},
            "f:set": {'v:"b"': {}},
        }
    }


@pytest.mark.parametrize("spec", ["text", [1], 5, {"list": {"a": 1}, "set": "b"}, {"set": [["x"], {"y": 1}]}])
def test_ownership_of_what_will_be_refused_is_recorded_all_the_same(spec: Any) -> None:
    body = {"metadata": {"name": "f"}, "spec": spec}
    assert ownership.record_update(None, body, custom("m"))[0]["manager"] == "m"
    old = {
        "metadata": {"name": "f", "managedFields": ownership.record_update(None, body, custom("m"))},
        "spec": {"a": "x"},
    }
    assert ownership.record_update(old, body, custom("n"))


def test_an_unknown_field_of_a_custom_object_is_refused() -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "c"}, "spec": {"odd": 100}}
    with pytest.raises(Problem) as caught:
        ownership.apply(None, body, custom("m"), force=False)
    assert caught.value.message == (
        "failed to create typed patch object (/c; example.com/v1, Kind=Thing): .spec.odd: field not declared in schema"
    )


CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from("abc"), "image": st.sampled_from("ij")},
    optional={
        "args": st.lists(st.sampled_from("xy"), min_size=1, max_size=2),
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("AB"), "value": st.sampled_from("12")}),
            unique_by=lambda item: item["name"],
            min_size=1,
            max_size=2,
        ),
    },
)
# Nothing empty: an applied empty map is owned but not stored, so two who apply one conflict, as on a real server.
CONFIGURATION = st.builds(
    lambda containers, labels: {
        **stateful_set(containers),
        "metadata": {"name": "r", "namespace": "ns", "labels": labels},
    },
    st.lists(CONTAINER, unique_by=lambda item: item["name"], min_size=1, max_size=3),
    st.dictionaries(st.sampled_from("lm"), st.sampled_from("12"), min_size=1, max_size=2),
)
MANAGER = st.sampled_from(["one", "two"])
HISTORY = st.lists(st.tuples(MANAGER, CONFIGURATION), max_size=4)


def after(history: list[tuple[str, Object]]) -> Stored:
    stored = Stored("apps", "StatefulSet")
    for manager, configuration in history:
        stored.apply(configuration, manager, force=True)
    return stored


@PROPERTY
@given(HISTORY, MANAGER, CONFIGURATION)
def test_applying_twice_is_applying_once(
    history: list[tuple[str, Object]], manager: str, configuration: Object
) -> None:
    stored = after(history)
    stored.apply(configuration, manager, force=True)
    once = copy.deepcopy(stored.live)
    stored.apply(configuration, manager)
    assert stored.live == once


@PROPERTY
@given(HISTORY, MANAGER, CONFIGURATION)
def test_what_was_applied_is_there(history: list[tuple[str, Object]], manager: str, configuration: Object) -> None:
    stored = after(history)
    stored.apply(configuration, manager, force=True)
    assert stored.live is not None
    live = {item["name"]: item for item in stored.live["spec"]["template"]["spec"]["containers"] or []}
    for wanted in configuration["spec"]["template"]["spec"]["containers"]:
        assert live[wanted["name"]]["image"] == wanted["image"]
    labels = stored.live["metadata"].get("labels", {})
    assert configuration["metadata"]["labels"].items() <= labels.items()


@PROPERTY
@given(HISTORY)
def test_recording_no_change_changes_nothing(history: list[tuple[str, Object]]) -> None:
    stored = after(history)
    if stored.live is None:
        return
    before = copy.deepcopy(stored.live)
    stored.change("bystander")
    assert stored.live == before


@PROPERTY
@given(HISTORY, CONFIGURATION)
def test_who_leaves_no_longer_owns(history: list[tuple[str, Object]], configuration: Object) -> None:
    stored = after(history)
    stored.apply(configuration, "three", force=True)
    stored.apply({"metadata": {"name": "r", "namespace": "ns"}}, "three")
    assert stored.fields("three") is None
