"""What a process pod's container sees: commands, environment, volumes, file system view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ome.local.engines import built_in_module
from ome.local.node.process.environment import Sources, command_of, environment_of, expand
from ome.local.node.process.forwarding import ready_endpoints
from ome.local.node.process.materials import references_of, service_names
from ome.local.node.process.rootfs import folders_to_make_anew
from ome.local.node.process.volumes import Material, Volumes, node_path
from ome.local.objects import Object
from tests.support.decode import decoded_as

SOURCES = Sources(
    secrets={"s": {"key": "hidden"}},
    config_maps={"m": {"a": "1", "b": "2"}},
    pod_ip="198.18.1.7",
    host_ip="198.18.0.1",
    services={"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
)


def pod(**spec: Any) -> Object:
    meta = {"name": "p", "namespace": "n", "uid": "u", "labels": {"l": "v"}, "annotations": {"a/b": 'q"x'}}
    return decoded_as(Object, {"metadata": meta, "spec": {"nodeName": "node-1", **spec}})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$(MISSING)", "$(MISSING)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$$$(A)", "$1"),
    ],
)
def test_references_expand_as_kubernetes_says(text: str, wanted: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == wanted


def test_later_entries_see_earlier_ones_and_unknown_names_stay() -> None:
    env = [
        {"name": "FIRST", "value": "x"},
        {"name": "SECOND", "value": "$(FIRST)/$(LATER)"},
        {"name": "LATER", "value": "y"},
    ]
    found = environment_of(pod(), {"name": "c", "env": env}, SOURCES)
    assert (found["SECOND"], found["LATER"]) == ("x/$(LATER)", "y")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "198.18.1.7"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['l']"}}, "v"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}, 'q"x'),
        ({"secretKeyRef": {"name": "s", "key": "key"}}, "hidden"),
        ({"configMapKeyRef": {"name": "m", "key": "b"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "64"),
        ({"resourceFieldRef": {"resource": "requests.cpu"}}, "2"),
    ],
)
def test_values_come_from_elsewhere(source: dict[str, Any], wanted: str) -> None:
    resources = {"limits": {"memory": "64Mi"}, "requests": {"cpu": "1500m"}}
    container = {"name": "c", "env": [{"name": "X", "valueFrom": source}], "resources": resources}
    assert environment_of(pod(), container, SOURCES)["X"] == wanted


def test_a_whole_config_map_with_a_prefix() -> None:
    found = environment_of(pod(), {"envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}]}, SOURCES)
    assert (found["P_a"], found["P_b"]) == ("1", "2")


@pytest.mark.parametrize(
    ("image", "module"),
    [
        ("local/engine", "ome.local.engines.engine"),
        ("local/llama:1", "ome.local.engines.llama"),
        ("local/router@sha256:00", "ome.local.engines.router"),
        ("local/other", None),
        ("docker.io/local/engine", None),
    ],
)
def test_an_image_names_a_built_in_program(image: str, module: str | None) -> None:
    assert built_in_module(image) == module


def test_a_command_wins_over_the_built_in_and_a_strange_image_says_what_to_do() -> None:
    assert command_of({"image": "local/x", "command": ["sh"], "args": ["$(A)"]}, {"A": "1"}) == ["sh", "1"]
    assert command_of({"image": "local/engine", "args": ["--port=1"]}, {})[1:] == [
        "-m",
        "ome.local.engines.engine",
        "--port=1",
    ]
    with pytest.raises(OSError, match="set command"):
        command_of({"image": "local/x"}, {})


def test_only_folders_that_lack_something_are_made_anew() -> None:
    there = {"/", "/dev", "/dev/shm", "/opt", "/etc", "/etc/hosts"}
    wanted = folders_to_make_anew(["/dev/shm", "/opt/ml/model", "/models/x", "/etc/hosts"], lambda path: path in there)
    assert wanted == {"/", "/opt"}


@pytest.mark.parametrize(
    ("path", "below"),
    [("/raid/x", "nodes/node-1/raid/x"), ("/../../etc", "nodes/node-1/etc"), ("//a/./b", "nodes/node-1/a/b")],
)
def test_a_host_path_never_leaves_the_data_folder(tmp_path: Path, path: str, below: str) -> None:
    assert node_path(tmp_path, "node-1", path) == tmp_path / below


def test_a_host_path_in_the_data_folder_stands_for_itself(tmp_path: Path) -> None:
    assert node_path(tmp_path, "node-1", f"{tmp_path}/weights") == tmp_path / "weights"


def material(**more: Any) -> Material:
    given: dict[str, Any] = {"config_maps": {}, "secrets": {}, "tokens": {}, "claims": {}, **more}
    return Material(pod_ip="198.18.1.7", host_ip="198.18.0.1", **given)


def test_volumes_of_every_kind_are_made_and_placed(tmp_path: Path) -> None:
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "m", "items": [{"key": "a", "path": "deep/a.txt"}]}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "down", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "host", "hostPath": {"path": "/models/x"}},
        {
            "name": "token",
            "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "m"}}]},
        },
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes]
    found = Volumes(tmp_path).mounts(
        pod(volumes=volumes),
        {"name": "c", "volumeMounts": mounts},
        material(config_maps={"m": {"a": b"1"}}, secrets={"s": {"k": b"\x00"}}, tokens={"": "jwt"}),
    )
    places = {mount.target: mount for mount in found}
    assert (Path(places["/v/config"].source) / "deep" / "a.txt").read_bytes() == b"1"
    assert (Path(places["/v/secret"].source) / "k").read_bytes() == b"\x00"
    assert (Path(places["/v/down"].source) / "labels").read_text() == 'l="v"'
    assert (Path(places["/v/token"].source) / "token").read_text() == "jwt"
    assert (Path(places["/v/token"].source) / "a").read_bytes() == b"1"
    assert places["/v/host"].source == str(tmp_path / "nodes/node-1/models/x")
    assert [places[f"/v/{name}"].read_only for name in ("scratch", "config", "host")] == [False, True, False]


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"persistentVolumeClaim": {"claimName": "none"}}, 'persistentvolumeclaim "none" not found'),
        ({"nfs": {"server": "x"}}, "volume v: nfs is not supported by process pods"),
    ],
)
def test_what_a_volume_lacks_is_said(tmp_path: Path, volume: dict[str, Any], text: str) -> None:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    with pytest.raises(OSError, match=text):
        Volumes(tmp_path).mounts(pod(volumes=[{"name": "v", **volume}]), container, material())


def test_only_what_a_container_refers_to_is_read() -> None:
    volumes = [
        {"name": "used", "secret": {"secretName": "s"}},
        {"name": "unused", "secret": {"secretName": "other"}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"audience": "x"}}]}},
    ]
    container = {
        "envFrom": [{"configMapRef": {"name": "m"}}],
        "volumeMounts": [{"name": "used", "mountPath": "/a"}, {"name": "token", "mountPath": "/b"}],
    }
    found = references_of(pod(volumes=volumes), container)
    assert (found.config_maps, found.secrets, found.audiences) == ({"m"}, {"s"}, {"x"})


def test_names_of_a_service_depend_on_where_one_stands() -> None:
    assert service_names("s", "n", "n", "cluster.local") == ["s.n.svc.cluster.local", "s.n.svc", "s.n", "s"]
    assert "s" not in service_names("s", "n", "other", "cluster.local")


def test_only_ready_endpoints_of_the_named_port_count() -> None:
    from ome.api.core import EndpointSlice

    slice_ = decoded_as(
        EndpointSlice,
        {
            "metadata": {"name": "x", "namespace": "n"},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
            "endpoints": [
                {"addresses": ["198.18.1.2"], "conditions": {"ready": True}},
                {"addresses": ["198.18.1.1"], "conditions": {}},
                {"addresses": ["198.18.1.3"], "conditions": {"ready": False}},
            ],
        },
    )
    assert ready_endpoints([slice_], "http") == [("198.18.1.1", 8080), ("198.18.1.2", 8080)]
