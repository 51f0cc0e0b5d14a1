"""`runtime explain` and `runtime tree` over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ome.kube.resources import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
)
from tests.support.cli_objects import LLAMA, merged, model, pinned_service, runtime, service
from tests.support.cli_server import StubCluster, Tool, status, write_kubeconfig


@pytest.fixture
def tool(cluster: StubCluster, tmp_path: Path) -> Tool:
    return Tool(cluster, write_kubeconfig(tmp_path, cluster, namespace="llama-demo"))


def entry(priority: int = 1, weight: int = 1, **changes: Any) -> dict[str, Any]:
    base = {
        "modelFormat": {"name": "safetensors", "version": "1.0.0", "weight": weight},
        "modelFramework": {"name": "transformers", "version": "4.45.0.dev0", "weight": 1},
        "modelArchitecture": "LlamaForCausalLM",
        "autoSelect": True,
        "priority": priority,
    }
    return merged(base, changes)


def spec(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return merged({"supportedModelFormats": list(entries)}, changes)


def ranked(cluster: StubCluster) -> None:
    """The ranking example: a namespaced runtime first, then cluster runtimes by score and size distance."""
    cluster.put(CLUSTER_BASE_MODELS, model())
    cluster.put(SERVING_RUNTIMES, runtime("team-llama", spec(entry()), "llama-demo"))
    cluster.put(
        CLUSTER_SERVING_RUNTIMES,
        runtime("vllm-llama", spec(entry(2, 2))),
        runtime("srt-llama-small", spec(entry(3), modelSizeRange={"min": "1B", "max": "8B"})),
        runtime("srt-llama-large", spec(entry(3), modelSizeRange={"min": "1B", "max": "70B"})),
    )


@pytest.mark.spec("CR-4")
def test_explain_reproduces_the_ranking(cluster: StubCluster, tool: Tool) -> None:
    ranked(cluster)
    ran = tool("runtime", "explain", "--model", LLAMA)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "RUNTIME           SCOPE        COMPATIBLE   PRIORITY   WEIGHT   REASON\n"
        "team-llama        Namespaced   Yes          1          2        -\n"
        "vllm-llama        Cluster      Yes          2          6        -\n"
        "srt-llama-small   Cluster      Yes          3          6        -\n"
        "srt-llama-large   Cluster      Yes          3          6        -\n"
    )
    assert all(len(line) <= 80 for line in ran.out.splitlines())


REASONS: list[tuple[str, dict[str, Any], str]] = [
    ("disabled", spec(entry(), disabled=True), "runtime is disabled"),
    ("class", spec(entry()), "runtime does not support the required accelerator class"),
    (
        "mode",
        spec(entry(), engineConfig={"annotations": {"ome.io/deploymentMode": "RawDeployment"}},
             acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "runtime engine deployment mode RawDeployment does not match requested engine deployment mode OMENative",
    ),
    (
        "format",
        spec(entry(modelArchitecture="Other"), acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "model format 'mt:safetensors:1.0.0:LlamaForCausalLM:transformers:4.45.0.dev0' not in supported formats: "
        "architecture mismatch (model=LlamaForCausalLM, runtime=Other)",
    ),
    (
        "size",
        spec(entry(), modelSizeRange={"max": "2B"}, acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "model size 3.21B is outside supported range (-inf, 2B]",
    ),
    (
        "never automatic",
        spec(entry(autoSelect=None), acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "supports the model but has no supportedModelFormats[].autoSelect=true entry, so automatic selection skips it "
        "(pin it explicitly via spec.runtime.name instead)",
    ),
    (
        "not this entry",
        spec(entry(autoSelect=False), entry(modelFormat={"name": "onnx"}),
             acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "matching format safetensors is not autoSelect-enabled (a different supportedModelFormats entry on this "
        "runtime has autoSelect=true, but not the one that matches this model)",
    ),
    (
        "score",
        spec(entry(weight=-1), acceleratorRequirements={"acceleratorClasses": ["h100"]}),
        "auto-select score is 0",
    ),
]  # fmt: skip


@pytest.mark.spec("CR-5")
@pytest.mark.parametrize(("what", "runtime_spec", "reason"), REASONS, ids=[what for what, *_ in REASONS])
def test_explain_gives_the_first_failing_check(
    cluster: StubCluster, tool: Tool, what: str, runtime_spec: dict[str, Any], reason: str
) -> None:
    cluster.put(CLUSTER_BASE_MODELS, model())
    asking = service(
        "asking",
        "llama-demo",
        spec={"model": {"name": LLAMA}, "runtime": None, "acceleratorSelector": {"acceleratorClass": "h100"}},
    )
    cluster.put(INFERENCE_SERVICES, asking)
    cluster.put(CLUSTER_SERVING_RUNTIMES, runtime("one", runtime_spec))
    ran = tool("runtime", "explain", "--isvc", "asking")
    lines = ran.out.splitlines()[1:]
    assert lines[0].split()[:5] == ["one", "Cluster", "No", "-", "-"]
    column = ran.out.splitlines()[0].index("REASON")
    said = "".join(line[column:].strip() for line in lines)
    assert said.replace(" ", "") == reason.replace(" ", "")
    assert all(len(line) <= 80 for line in ran.out.splitlines())


@pytest.mark.spec("CR-5")
def test_an_explicit_runtime_is_noted_on_stderr(cluster: StubCluster, tool: Tool) -> None:
    ranked(cluster)
    cluster.put(INFERENCE_SERVICES, pinned_service())
    ran = tool("runtime", "explain", "--isvc", LLAMA)
    assert ran.err == "Note: spec.runtime is explicit; automatic selection below is hypothetical.\n"
    assert ran.code == 0


def test_long_reasons_break_inside_words_as_documented(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(CLUSTER_BASE_MODELS, model())
    cluster.put(
        CLUSTER_SERVING_RUNTIMES,
        runtime("srt-llama-1b", spec(entry(), modelSizeRange={"min": "500M", "max": "2B"})),
        runtime("vllm-base", spec(entry(autoSelect=None))),
    )
    cluster.put(SERVING_RUNTIMES, runtime("team-llama", spec(entry()), "llama-demo"))
    pad = " " * 61
    assert tool("runtime", "explain", "--model", LLAMA).out == (
        "RUNTIME        SCOPE        COMPATIBLE   PRIORITY   WEIGHT   REASON\n"
        "team-llama     Namespaced   Yes          1          2        -\n"
        "srt-llama-1b   Cluster      No           -          -        model size 3.21B is\n"
        f"{pad}outside supported\n{pad}range [500M, 2B]\n"
        "vllm-base      Cluster      No           -          -        supports the model\n"
        f"{pad}but has no\n{pad}supportedModelForma\n{pad}ts[].\n{pad}autoSelect=true\n{pad}entry, so automatic\n"
        f"{pad}selection skips it\n{pad}(pin it explicitly\n{pad}via\n{pad}spec.runtime.name\n{pad}instead)\n"
    )


@pytest.mark.spec("CR-3")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "exactly one of --model or --isvc is required"),
        (("--model", "a", "--isvc", "b"), "exactly one of --model or --isvc is required"),
        (("--model", "a", "--with-effective"), "--with-effective requires --isvc"),
    ],
)
def test_explain_flags(cluster: StubCluster, tool: Tool, arguments: tuple[str, ...], message: str) -> None:
    ran = tool("runtime", "explain", *arguments)
    assert (ran.code, ran.out, ran.err) == (1, "", f"error: {message}\n")
    assert cluster.calls == []


def test_a_missing_model_is_the_api_servers_error(cluster: StubCluster, tool: Tool) -> None:
    assert tool("runtime", "explain", "--model", "none").err == 'error: clusterbasemodels.ome.io "none" not found\n'


def test_a_service_without_a_model_is_told_what_to_do(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(INFERENCE_SERVICES, service("plain", "llama-demo", spec={"model": None}))
    ran = tool("runtime", "explain", "--isvc", "plain")
    assert ran.err == 'error: InferenceService "plain" has no spec.model; pass --model instead\n'


def test_no_runtimes_is_no_error(cluster: StubCluster, tool: Tool) -> None:
    cluster.put(BASE_MODELS, merged(model(), {"metadata": {"namespace": "llama-demo"}}))
    ran = tool("runtime", "explain", "--model", LLAMA)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No serving runtimes found in the selected namespace or at cluster scope.\n"


def test_effective_context_is_appended(cluster: StubCluster, tool: Tool) -> None:
    ranked(cluster)
    cluster.put(
        INFERENCE_SERVICES,
        service("auto", "llama-demo", spec={"model": {"name": LLAMA}, "runtime": {"name": "vllm-llama"}}),
    )
    out = tool("runtime", "explain", "--isvc", "auto", "--with-effective").out
    first, second = out.split("\n\n")
    assert first.startswith("RUNTIME")
    assert second.splitlines()[:6] == [
        "Effective context (separate observation; selector verdict unchanged):",
        "SCOPE     FIELD           VALUE",
        "Service   SELECTION       Explicit",
        "Service   SOURCE          CSR/vllm-llama",
        "Source    INHERITANCE     Observed",
        "Source    ROOT-FIRST      CSR/vllm-llama",
    ]


# -- tree --------------------------------------------------------------------------------------------------------------


def inheriting(name: str, parent: str, namespace: str = "") -> dict[str, Any]:
    return runtime(name, spec(entry()), namespace, annotations={"ome.io/inherit-from": parent} if parent else {})


def user(
    name: str, namespace: str, runtime_name: str | None, kind: str | None = "ClusterServingRuntime"
) -> dict[str, Any]:
    reference = {"name": runtime_name, "kind": kind} if runtime_name else None
    return service(name, namespace, spec={"runtime": reference})


@pytest.fixture
def forest(cluster: StubCluster) -> StubCluster:
    cluster.put(
        CLUSTER_SERVING_RUNTIMES,
        inheriting("vllm-base", ""),
        inheriting("vllm-llama", "vllm-base"),
        inheriting("other", ""),
        inheriting("another", ""),
    )
    cluster.put(SERVING_RUNTIMES, inheriting("team-llama", "vllm-llama", "team-a"))
    cluster.put(
        INFERENCE_SERVICES,
        user("llama-chat", "team-a", "vllm-llama"),
        user("llama-batch", "team-b", "vllm-llama"),
        user("llama-dev", "team-a", "team-llama", None),
        user("llama-auto", "team-b", None),
    )
    return cluster


@pytest.mark.spec("CR-9")
def test_the_tree_of_a_cluster_runtime(forest: StubCluster, tool: Tool) -> None:
    ran = tool("runtime", "tree", "vllm-llama", "-n", "team-a")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "RUNTIME TREE\n"
        "Target: ClusterServingRuntime/vllm-llama\n"
        "Context: Cluster (resolution: Complete)\n"
        "Head: ClusterServingRuntime/vllm-llama\n"
        "ClusterServingRuntime/vllm-base\n"
        "`-- ClusterServingRuntime/vllm-llama [selected]\n"
        "    |-- InferenceService/team-a/llama-chat\n"
        "    `-- InferenceService/team-b/llama-batch\n"
        "Context: Namespaced/team-a (resolution: Complete)\n"
        "Head: ServingRuntime/team-llama\n"
        "ClusterServingRuntime/vllm-base\n"
        "`-- ClusterServingRuntime/vllm-llama [selected]\n"
        "    `-- ServingRuntime/team-llama\n"
        "        `-- InferenceService/llama-dev\n"
        "Snapshot: Complete\n"
        "Collection: ClusterServingRuntime scope=Cluster status=Complete pages=1 items=4\n"
        "Collection: ServingRuntime scope=AllNamespaces status=Complete pages=1 items=1\n"
        "Collection: InferenceService scope=AllNamespaces status=Complete pages=1 items=4\n"
    )


@pytest.mark.spec("CR-9")
def test_the_tree_of_a_namespaced_runtime(forest: StubCluster, tool: Tool) -> None:
    assert tool("runtime", "tree", "team-llama", "-n", "team-a").out == (
        "RUNTIME TREE\n"
        "Target: ServingRuntime/team-a/team-llama\n"
        "Context: Namespaced/team-a (resolution: Complete)\n"
        "Head: ServingRuntime/team-llama\n"
        "ClusterServingRuntime/vllm-base\n"
        "`-- ClusterServingRuntime/vllm-llama\n"
        "    `-- ServingRuntime/team-llama [selected]\n"
        "        `-- InferenceService/llama-dev\n"
        "Snapshot: Complete\n"
        "Collection: ClusterServingRuntime scope=Cluster status=Complete pages=1 items=4\n"
        "Collection: ServingRuntime scope=Namespace/team-a\n  status=Complete pages=1 items=1\n"
        "Collection: InferenceService scope=Namespace/team-a\n  status=Complete pages=1 items=2\n"
    )


@pytest.mark.spec("CR-9")
def test_unattributed_users_are_shown_on_request(forest: StubCluster, tool: Tool) -> None:
    forest.put(
        INFERENCE_SERVICES,
        user("lost", "team-b", "gone"),
        user("odd", "team-b", "Not_A_Name"),
    )
    out = tool("runtime", "tree", "vllm-llama", "--show-unattributed-users").out
    block = out[out.index("Unattributed") : out.index("Snapshot:")]
    assert block == (
        "Unattributed users (not attributed to runtime tree):\n"
        "  [not attributed] InferenceService/team-b/llama-auto\n"
        "  state=Unresolved reason=AutomaticSelection\n"
        "  [not attributed] InferenceService/team-b/lost\n"
        "  state=Unresolved reason=RuntimeNotFound\n"
        "  declared runtime=gone\n"
        "  [not attributed] InferenceService/team-b/odd\n"
        "  state=Invalid reason=InvalidRuntimeName\n"
    )


@pytest.mark.spec("CR-9")
def test_an_ambiguous_name_is_refused(forest: StubCluster, tool: Tool) -> None:
    forest.put(SERVING_RUNTIMES, inheriting("vllm-llama", "", "team-a"))
    ran = tool("runtime", "tree", "vllm-llama", "-n", "team-a")
    assert ran.err == (
        'error: runtime "vllm-llama" is ambiguous; pass --kind ServingRuntime or --kind ClusterServingRuntime: '
        'runtime target is ambiguous: "vllm-llama" matched 2 runtimes\n'
    )
    assert tool("runtime", "tree", "vllm-llama", "-n", "team-a", "--kind", "ServingRuntime").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), 'project runtime inheritance tree: runtime target was not found: "none"'),
        (
            ("a", "--kind", "Runtime"),
            'unsupported runtime kind "Runtime" (supported: ServingRuntime, ClusterServingRuntime)',
        ),
    ],
)
def test_tree_errors(forest: StubCluster, tool: Tool, arguments: tuple[str, ...], message: str) -> None:
    assert tool("runtime", "tree", *arguments).err == f"error: {message}\n"


def test_an_incomplete_runtime_list_ends_the_command(forest: StubCluster, tool: Tool) -> None:
    forest.before("GET", "/v1beta1/servingruntimes", lambda: status(403, "Forbidden", "no"))
    assert tool("runtime", "tree", "vllm-llama").err == (
        "error: runtime tree requires complete runtime evidence: ServingRuntime collection is unavailable "
        "(pages=0 items=0); restore list access or narrow the runtime scope, then retry\n"
    )


def test_an_incomplete_service_list_is_a_partial_snapshot(forest: StubCluster, tool: Tool) -> None:
    forest.always("GET", "/v1beta1/inferenceservices", status(403, "Forbidden", "no"))
    ran = tool("runtime", "tree", "vllm-llama")
    assert ran.code == 0
    assert "Snapshot: Partial\n" in ran.out
    assert "Warning: PartialData\nWarning: SourceUnavailable\n" in ran.out


def test_a_broken_chain_is_an_issue(forest: StubCluster, tool: Tool) -> None:
    forest.remove(CLUSTER_SERVING_RUNTIMES, "vllm-base")
    out = tool("runtime", "tree", "vllm-llama").out
    assert "Issue: ParentMissing subject=vllm-llama parent=vllm-base\nIssue path: vllm-llama -> vllm-base\n" in out


def test_json_of_a_tree(forest: StubCluster, tool: Tool) -> None:
    document = tool("runtime", "tree", "vllm-llama", "-o", "json").json
    assert document["kind"] == "RuntimeTreeReport"
    assert [context["scope"] for context in document["content"]["contexts"]] == ["Cluster", "Namespaced"]
