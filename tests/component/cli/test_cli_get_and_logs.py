"""`kubectl ome get` and `logs` over HTTP."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ome import __version__
from ome.kube.resources import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    DEPLOYMENTS,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    PODS,
    SERVING_RUNTIMES,
)
from tests.support.cli_objects import merged, model, replica, runtime, service
from tests.support.cli_server import Answer, StubCluster, Tool, status


def standalone() -> dict[str, Any]:
    return replica(
        metadata={"name": "pool-a", "uid": "u2"},
        spec={"parentRef": None, "replicas": 2},
        status={"replicas": 2, "readyReplicas": 2, "conditions": [{"type": "Ready", "status": "True"}]},
    )


def serving(**status_changes: Any) -> dict[str, Any]:
    base = {"replicas": 3, "readyReplicas": 2, "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}]}
    return replica(spec={"replicas": 4}, status=base | status_changes)


@pytest.mark.spec("CS-5")
def test_replicas(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_REPLICAS, serving(), standalone())
    expected = (
        "NAME          COMPONENT   PARENT   DESIRED   CURRENT   READY   LIFECYCLE    AGE\n"
        "chat-engine   engine      chat     4         3         2       Ready=True   -\n"
        "pool-a        engine      -        2         2         2       Ready=True   -\n"
    )
    for word in ("ir", "IR", "inferencereplica", "InferenceReplicas"):
        assert tool("get", word).out == expected


@pytest.mark.spec("CS-5")
def test_wide_replicas(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_REPLICAS, serving())
    header, line = (text.split() for text in tool("get", "ir", "-o", "wide").out.splitlines())
    assert header == [
        "NAME",
        "COMPONENT",
        "PARENT",
        "DESIRED",
        "CURRENT",
        "READY",
        "LIFECYCLE",
        "AVAILABLE",
        "REASON",
        "SERVING",
        "UPDATED",
        "ENCODING",
        "CURRENT-REVISION",
        "UPDATE-REVISION",
        "MIGRATIONS",
        "PAUSED",
        "COORDINATION",
        "LIFECYCLE-FRESHNESS",
        "AGE",
    ]
    assert dict(zip(header, line, strict=True))["ENCODING"] == "DenseV1"


@pytest.mark.spec("CS-5")
def test_the_short_name_of_kubectl_get_is_not_known(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("get", "irep")
    assert ran.code == 1
    assert ran.err.startswith('error: unknown resource "irep" (valid resources: inferenceservices, ')
    assert tool("get", "ir/chat-engine").code == 1


@pytest.mark.spec("CS-6")
@pytest.mark.parametrize(
    ("conditions", "cell"),
    [
        ([("Ready", "True"), ("RolloutStalled", "True")], "RolloutStalled=True"),
        ([("Ready", "False"), ("RolloutStalled", "False")], "Ready=False"),
        ([("RolloutStalled", "False")], "RolloutStalled=False"),
        ([], "Unavailable"),
    ],
)
def test_lifecycle(cluster: StubCluster, tool: Tool, conditions: list[tuple[str, str]], cell: str) -> None:
    found = [{"type": kind, "status": state} for kind, state in conditions]
    cluster.put(INFERENCE_REPLICAS, serving(conditions=found))
    assert tool("get", "ir").out.splitlines()[1].split()[6] == cell


def test_services_with_an_age(cluster: StubCluster, tool: Tool) -> None:
    created = service(metadata={"creationTimestamp": "2026-09-28T11:03:12Z"}, status={"url": "http://chat.prod"})
    cluster.put(INFERENCE_SERVICES, created)
    assert tool("get", "isvc").out == (
        "NAME   MODEL        RUNTIME          READY     URL                AGE\n"
        "chat   qwen3-0-6b   srt-qwen3-0-6b   Unknown   http://chat.prod   3h\n"
    )
    assert tool("get", "isvc", "-A").out.splitlines()[1].startswith("prod        chat")


def test_merged_views_list_both_scopes_and_prefer_the_namespaced_object(cluster: StubCluster, tool: Tool) -> None:
    own = merged(model("ns-model"), {"metadata": {"namespace": "prod"}, "spec": {"modelFormat": None}})
    cluster.put(BASE_MODELS, own, merged(model("both"), {"metadata": {"namespace": "prod"}}))
    cluster.put(CLUSTER_BASE_MODELS, model("cluster-model"), model("both"))
    lines = [line.split()[:2] for line in tool("get", "models").out.splitlines()]
    assert lines == [
        ["NAME", "SCOPE"],
        ["both", "Namespaced"],
        ["ns-model", "Namespaced"],
        ["both", "Cluster"],
        ["cluster-model", "Cluster"],
    ]
    assert [line.split()[1] for line in tool("get", "models", "both").out.splitlines()[1:]] == ["Namespaced"]
    assert tool("get", "models", "cluster-model").out.splitlines()[1].split()[1] == "Cluster"


def test_formats_past_three_are_counted(cluster: StubCluster, tool: Tool) -> None:
    formats = [{"modelFormat": {"name": name}} for name in ("safetensors", "pytorch", "onnx", "gguf", "bin")]
    cluster.put(SERVING_RUNTIMES, runtime("r", {"supportedModelFormats": formats}, "prod"))
    assert tool("get", "srt").out.splitlines()[1].split() == ["r", "false", "safetensors,pytorch,onnx,+2", "-"]


@pytest.mark.spec("CS-7")
def test_nothing_found(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("get", "workloadclusters")
    assert (ran.code, ran.out, ran.err) == (0, "", "No workloadclusters found.\n")
    assert tool("get", "isvc", "-o", "yaml").out == "apiVersion: v1\nitems: []\nkind: List\nmetadata: {}\n"


def test_json_prints_the_object(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service(metadata={"managedFields": [{"manager": "x"}]}))
    document = tool("get", "isvc", "chat", "-o", "json").json
    assert (document["kind"], document["metadata"]["name"]) == ("InferenceService", "chat")
    assert "managedFields" not in document["metadata"]
    assert [item["kind"] for item in tool("get", "isvc", "-o", "json").json["items"]] == ["InferenceService"]


@pytest.mark.parametrize(
    ("arguments", "answer", "message"),
    [
        (("isvc", "missing"), None, "get inferenceservices prod/missing: NotFound"),
        (("cbm",), status(403, "Forbidden", "no"), "list clusterbasemodels: Forbidden"),
        (("isvc",), status(401, "Unauthorized", "no"), "list inferenceservices prod: Unauthorized"),
        (("ap",), status(404, "NotFound", "page not found"),
         "list autoscalerpolicies prod: OMEAPIMissing (install OME first)"),
        (("isvc",), status(503, "ServiceUnavailable", "no"), "list inferenceservices prod: Unavailable"),
        (("isvc", "a", "-A"), None, "a resource name cannot be combined with --all-namespaces or --selector"),
    ],
)  # fmt: skip
def test_get_errors(
    cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], answer: Answer | None, message: str
) -> None:
    if answer is not None:
        cluster.always("GET", "/", answer)
    ran = tool("get", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")


def test_hostile_names_reach_no_terminal(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service(status={"url": "http://a\x1b]0;pwned\x07\u202e"}))
    for output in ("table", "json", "yaml"):
        out = tool("get", "isvc", "-o", output).out
        assert "\x1b" not in out
        assert "\u202e" not in out


# -- logs --------------------------------------------------------------------------------------------------------------


def pod(name: str, component: str = "engine", *containers: str, node: str = "gpu-1", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "prod",
            "labels": {"ome.io/inferenceservice": "chat", "component": component, **labels},
        },
        "spec": {"nodeName": node, "containers": [{"name": c} for c in containers or ("ome-container", "sidecar")]},
    }


def log(cluster: StubCluster, text: str = "one\ntwo\n") -> None:
    cluster.hooks.append(lambda call: Answer(text=text.encode()) if call.path.endswith("/log") else None)


@pytest.mark.spec("CS-8")
@pytest.mark.parametrize(
    ("arguments", "selector"),
    [
        ((), "ome.io/inferenceservice=chat"),
        (("-c", "engine"), "component=engine,ome.io/inferenceservice=chat"),
        (
            ("--component=engine", "--instance=2"),
            "component=engine,ome.io/inferenceservice=chat,ome.io/instance-index=2,ome.io/managed-by=OMENative",
        ),
        (
            ("--component=engine", "--revision=7f9c4d2b"),
            "component=engine,ome.io/inferenceservice=chat,ome.io/managed-by=OMENative,ome.io/revision-hash=7f9c4d2b",
        ),
        (
            ("--revision=chat-engine-7f9c4d2b",),
            "component=engine,ome.io/inferenceservice=chat,ome.io/managed-by=OMENative,ome.io/revision-hash=7f9c4d2b",
        ),
    ],
)
def test_log_selectors(cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], selector: str) -> None:
    ran = tool("logs", "chat", *arguments)
    assert cluster.calls[0].query["labelSelector"] == selector
    assert ran.err == f'error: no pods found for InferenceService "chat" in namespace "prod" (selector {selector})\n'


@pytest.mark.spec("CS-9")
def test_lines_are_prefixed_only_with_several_pods(cluster: StubCluster, tool: Tool) -> None:
    log(cluster)
    cluster.put(PODS, pod("b"))
    assert tool("logs", "chat").out == "one\ntwo\n"
    cluster.put(PODS, pod("a", "router"), pod("pending", node=""))
    assert tool("logs", "chat").out == "[router/a] one\n[router/a] two\n[engine/b] one\n[engine/b] two\n"


def test_log_options_reach_the_server(cluster: StubCluster, tool: Tool) -> None:
    log(cluster)
    cluster.put(PODS, pod("a"))
    tool("logs", "chat", "--since=90s", "--tail=5", "--limit-bytes=100")
    query = cluster.calls[-1].query
    assert query == {"container": "ome-container", "sinceSeconds": "90", "tailLines": "5", "limitBytes": "100"}


def test_following_writes_whole_lines_of_all_pods(cluster: StubCluster, tool: Tool) -> None:
    log(cluster)
    cluster.put(PODS, pod("a"), pod("b"))
    ran = tool("logs", "chat", "-f")
    assert sorted(ran.out.splitlines()) == ["[engine/a] one", "[engine/a] two", "[engine/b] one", "[engine/b] two"]


LOG_ERRORS: list[tuple[tuple[str, ...], str]] = [
    (("-c", "gpu"), 'invalid component "gpu" (valid: engine, decoder, router)'),
    (("--instance=0",), "--instance requires --component"),
    (("--revision=7f9c4d2b",), "hash-only --revision requires --component"),
    (("--limit-bytes=1", "--follow"), "--limit-bytes cannot be used with --follow"),
    (
        ("-f", "--max-log-requests=1"),
        "you are attempting to follow 2 log streams, but maximum allowed concurrency is 1, use --max-log-requests to "
        "increase the limit",
    ),
]


@pytest.mark.spec("CS-9")
@pytest.mark.parametrize(("arguments", "message"), LOG_ERRORS)
def test_log_errors(cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], message: str) -> None:
    cluster.put(PODS, pod("a"), pod("b"))
    ran = tool("logs", "chat", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")


@pytest.mark.spec("CS-9")
def test_more_log_errors(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(PODS, *(pod(f"p-{n}") for n in range(201)))
    assert tool("logs", "chat").err == (
        "error: pod discovery was truncated after 2 requests; narrow the query with --component, --instance, or "
        "--revision\n"
    )
    cluster.objects.clear()
    cluster.put(PODS, pod("a", "engine", "one", "two"))
    assert tool("logs", "chat").err == (
        "error: streaming logs for pod a: a container name must be specified for pod a, choose one of: [one two]\n"
    )
    cluster.put(PODS, pod("a"))
    log(cluster, "x" * (1 << 20) + "\n")
    assert tool("logs", "chat").err == "error: bufio.Scanner: token too long\n"
    cluster.hooks.clear()
    cluster.always("GET", "/log", status(403, "Forbidden", "no logs"))
    assert tool("logs", "chat").err == "error: streaming logs for pod a: no logs\n"
    cluster.always("GET", "/pods", status(403, "Forbidden", "no"))
    assert tool("logs", "chat").err == "error: discover pods: Forbidden\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_escape_sequences_of_a_log_are_shown_on_a_terminal_and_kept_in_a_pipe(cluster: StubCluster, tool: Tool) -> None:
    log(cluster, "a\tb\x1b[31mred\n")
    cluster.put(PODS, pod("a"))
    assert tool("logs", "chat").out == "a\tb\x1b[31mred\n"
    assert tool("logs", "chat", stdout=Terminal()).out == "a\tb\\u001b[31mred\n"


# -- version -----------------------------------------------------------------------------------------------------------


def deployment(*containers: dict[str, str]) -> dict[str, Any]:
    meta = {"name": "ome-controller-manager", "namespace": "ome"}
    return {"metadata": meta, "spec": {"template": {"spec": {"containers": list(containers)}}}}


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.example:5000/ome-manager:v1.3.0", "v1.3.0"),
        ("ome-manager:v1.3.0@sha256:ab", "v1.3.0@sha256:ab"),
        ("ome-manager@sha256:ab", "sha256:ab"),
        ("registry.example:5000/ome-manager", "unknown (image has no tag or digest)"),
    ],
)
def test_version_of_the_operator(cluster: StubCluster, tool: Tool, image: str, version: str) -> None:
    cluster.put(DEPLOYMENTS, deployment({"name": "proxy", "image": "p:1"}, {"name": "manager", "image": image}))
    assert tool("version").out == f"Client Version: {__version__}\nOperator Version: {version}\n"
    assert tool("version", stdout=Terminal()).out.splitlines()[0] == "COMPONENT   VERSION"


def test_version_without_an_operator_is_no_failure(cluster: StubCluster, tool: Tool) -> None:
    ran = tool("version")
    assert ran.code == 0
    assert "unknown (get deployments.apps ome/ome-controller-manager: NotFound)" in ran.out
    cluster.put(DEPLOYMENTS, deployment({"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}))
    assert "unknown (manager container unavailable)" in tool("version").out
    assert "unknown (resolve kubernetes-client: Unavailable)" in tool("version", "--context=nope").out
