"""The walkthrough of runtime revisions and pinning, typed with the real kubectl, compared line for line."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.scenario import Ran, ScenarioCluster, like

ROOT = Path(__file__).resolve().parents[2]
NS, NAME, RUNTIME = "llama-demo", "llama-3-2-3b-instruct", "sglang-llama-3-2-3b"
PREFIX = f"r-{NS}-{RUNTIME}-"
A, B = PREFIX + "590753e8", PREFIX + "af9539ac"
DENIED = (
    'Error from server (Forbidden): admission webhook "inferenceservice.ome-webhook-server.validator" '
    "denied the request: "
)
COLUMNS = (
    "custom-columns=NAME:.metadata.name,PINNED:.status.pinnedRevisionName,"
    'DRIFTED:.status.conditions[?(@.type=="RuntimeDrifted")].status,'
    'REASON:.status.conditions[?(@.type=="RuntimeDrifted")].reason'
)
HEAD = "NAME                    PINNED                                      DRIFTED   REASON\n"
DRIFTED = f"{HEAD}{NAME}   {A}   True      RevisionMismatch\n"
ENTRY = {
    "name": NAME,
    "status": "Ready",
    "config": {
        "modelType": "llama",
        "modelArchitecture": "LlamaForCausalLM",
        "modelFormat": {"name": "safetensors", "version": "1.0.0"},
        "modelFramework": {"name": "transformers", "version": "4.45.0.dev0"},
        "modelParameterSize": "3.21B",
        "maxTokens": 131072,
        "modelCapabilities": ["TEXT_TO_TEXT"],
    },
}
SERVICE = """\
apiVersion: ome.io/v1beta1
kind: InferenceService
metadata:
  name: llama-3-2-3b-instruct
  namespace: llama-demo
spec:
  model:
    name: llama-3-2-3b-instruct
  runtime:
    name: sglang-llama-3-2-3b
    kind: ServingRuntime
    autoSync: false
  engine:
    minReplicas: 1
    maxReplicas: 1
"""
CANONICAL_RUNTIME = ROOT / "tests" / "scenario" / "data" / "runtime.yaml"


def pinned(revision: str) -> str:
    """The table of a pinned service without drift."""
    return f"{HEAD}{NAME}   {revision}   <none>    <none>\n"


class Person:
    """Somebody at a terminal, with the document's files in the working folder."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self.c = cluster

    def stage(self) -> None:
        """Section 0: the model with the agent's marks, the namespace, the runtime."""
        c = self.c
        c.kubectl("apply -f", str(ROOT / "config/models/meta/Llama-3.2-3B-Instruct.yaml")).ok()
        c.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "node-1",
                    "namespace": "ome",
                    "labels": {"models.ome/basemodel-status": "true", "node": "node-1"},
                    "annotations": {"models.ome.io/node-name": "node-1", "models.ome.io/managed-by": "model-agent"},
                },
                "data": {f"clusterbasemodel.{NAME}": json.dumps(ENTRY)},
            },
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
        )
        label = f"models.ome.io/clusterbasemodel.{NAME}=Ready"
        c.until(lambda: c.kubectl(f"label node node-1 {label} --overwrite").code == 0)
        ready = c.kubectl(
            f"wait --for=jsonpath={{.status.state}}=Ready clusterbasemodel/{NAME} --timeout=60s", timeout=70
        ).ok()
        assert ready.out == f"clusterbasemodel.ome.io/{NAME} condition met\n"
        c.write("runtime.yaml", CANONICAL_RUNTIME.read_text())
        applied = c.kubectl("apply -f runtime.yaml").ok()
        assert (applied.out, applied.err) == (f"servingruntime.ome.io/{RUNTIME} created\n", "")
        c.write("isvc.yaml", SERVICE)

    # -- the shorthands of the walkthrough ---------------------------------------------------------------------------

    def pin(self, name: str = NAME) -> str:
        return self.c.kubectl(f"get inferenceservice {name} -n {NS} -o", COLUMNS).ok().out

    def message(self) -> str:
        path = 'jsonpath={.status.conditions[?(@.type=="RuntimeDrifted")].message}'
        return self.c.kubectl(f"get inferenceservice {NAME} -n {NS} -o", path).ok().out

    def arguments(self) -> str:
        path = 'jsonpath={.spec.template.spec.containers[?(@.name=="ome-container")].args}'
        return self.c.kubectl(f"get deployment {NAME}-engine -n {NS} -o", path).out

    def generation(self) -> str:
        return self.c.kubectl(f"get deployment {NAME}-engine -n {NS} -o", "jsonpath={.metadata.generation}").ok().out

    def token(self) -> str:
        path = "jsonpath={.status.lastRuntimeSyncToken}"
        return self.c.kubectl(f"get inferenceservice {NAME} -n {NS} -o", path).ok().out

    def fraction(self, value: str) -> Ran:
        path = self.c.folder / "runtime.yaml"
        path.write_text(re.sub(r"--mem-frac=[0-9.]+", f"--mem-frac={value}", path.read_text()))
        return self.c.kubectl("apply -f runtime.yaml").ok()

    def annotate(self, value: str) -> Ran:
        return self.c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync={value} --overwrite").ok()

    def patch(self, spec: dict[str, object]) -> Ran:
        body = json.dumps({"spec": spec})
        return self.c.kubectl(f"patch inferenceservice {NAME} -n {NS} --type=merge -p", body)

    def shows(self, table: str, timeout: float = 10.0) -> None:
        self.c.eventually(self.pin, table, timeout=timeout)

    def shows_fraction(self, value: str, timeout: float = 10.0) -> None:
        self.c.until(lambda: f"--mem-frac={value}" in self.arguments(), timeout=timeout, what=f"args with {value}")

    def condition(self, kind: str) -> dict[str, str]:
        found = self.c.get(f"inferenceservice {NAME} -n {NS}")
        return next((c for c in found["status"].get("conditions", []) if c["type"] == kind), {})

    def revisions(self) -> list[str]:
        out = self.c.kubectl(f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} -o name").ok().out
        return sorted(line.removeprefix("controllerrevision.apps/") for line in out.splitlines())

    def revision(self, name: str | None, auto_sync: bool = False) -> Ran:
        """Apply isvc.yaml with `revision` under autoSync, or without."""
        line = f"    autoSync: {'true' if auto_sync else 'false'}\n" + (f"    revision: {name}\n" if name else "")
        self.c.write("isvc.yaml", SERVICE.replace("    autoSync: false\n", line))
        return self.c.kubectl("apply -f isvc.yaml")


@pytest.fixture(scope="module")
def person(opener: Callable[..., ScenarioCluster]) -> Person:
    cluster = opener(nodes=1, flags=("--runtime-revision-retention=10", "--runtime-revision-grace-period=6s"))
    someone = Person(cluster)
    someone.stage()
    return someone


@pytest.mark.spec("RR-2", "RR-3", "RR-4", "RR-34", "IS-39", "SR-1", "SR-22")
def test_1_pin(person: Person) -> None:
    c = person.c
    first, size = ".spec.supportedModelFormats[0]", ".spec.modelSizeRange"
    columns = (
        f"custom-columns=NAME:.metadata.name,FORMAT:{first}.modelFormat.name,ARCHITECTURE:{first}.modelArchitecture,"
        f"MIN:{size}.min,MAX:{size}.max"
    )
    shown = c.kubectl(f"get servingruntimes -n {NS} --no-headers -o", columns).ok().out
    assert shown.split() == ["sglang-llama-3-2-3b", "safetensors", "LlamaForCausalLM", "2B", "4B"]
    created = c.kubectl("apply -f isvc.yaml").ok()
    assert (created.out, created.err) == (f"inferenceservice.ome.io/{NAME} created\n", "")
    person.shows(pinned(A))
    assert person.message() == ""
    assert person.token() == ""
    c.eventually(
        person.arguments,
        '["--host=0.0.0.0","--port=8080","--model-path=$(MODEL_PATH)",'
        '"--served-model-name=llama-3-2-3b-instruct","--tp-size=1","--mem-frac=0.9"]',
    )
    labels = (
        r"jsonpath={.revision} {.metadata.annotations.ome\.io/created-by} {.metadata.labels.ome\.io/runtime-of}"
        r" {.metadata.labels.ome\.io/runtime-of-kind} {.metadata.labels.ome\.io/runtime-of-namespace}"
        r" {.metadata.labels.ome\.io/revision-hash}"
    )
    shown = c.kubectl(f"get controllerrevision {A} -n ome -o", labels).ok().out
    assert shown == f"1 ome-controller {RUNTIME} ServingRuntime {NS} 590753e8"
    raw = c.kubectl(f"get --raw /apis/apps/v1/namespaces/ome/controllerrevisions/{A}").ok().out
    data = json.dumps(json.loads(raw)["data"], separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(data.encode()).hexdigest().startswith("590753e8")
    assert person.revisions() == [A]
    ready = c.kubectl(f"wait --for=condition=Ready inferenceservice/{NAME} -n {NS} --timeout=120s", timeout=130).ok()
    assert ready.out == f"inferenceservice.ome.io/{NAME} condition met\n"
    c.write("two.yaml", SERVICE.replace("  name: llama-3-2-3b-instruct\n  namespace", "  name: two\n  namespace"))
    c.kubectl("apply -f two.yaml").ok()
    path = "jsonpath={.status.pinnedRevisionName}"
    c.eventually(lambda: c.kubectl(f"get inferenceservice two -n {NS} -o", path).ok().out, A)
    assert person.revisions() == [A]
    c.kubectl("delete -f two.yaml").ok()


@pytest.mark.spec("RR-6", "RR-7", "RR-8", "RR-34", "RR-36", "IS-38")
def test_2_the_runtime_changes(person: Person) -> None:
    c = person.c
    generation, ready = person.generation(), person.condition("Ready")
    assert person.fraction("0.85").out == f"servingruntime.ome.io/{RUNTIME} configured\n"
    person.shows(DRIFTED)
    assert person.message() == f"pinned {A}, live spec differs; bump ome.io/runtime-sync annotation to advance"
    assert person.generation() == generation
    assert "--mem-frac=0.9" in person.arguments()
    assert person.condition("Ready") == ready
    two = {"engine": {"minReplicas": 2, "maxReplicas": 2}}
    assert person.patch(two).ok().out == f"inferenceservice.ome.io/{NAME} patched\n"

    def sizes() -> str:
        deployment = c.kubectl(f"get deployment {NAME}-engine -n {NS} -o", "jsonpath={.spec.replicas}").ok().out
        return deployment + c.kubectl(f"get hpa {NAME}-engine -n {NS} -o", "jsonpath={.spec.minReplicas}").ok().out

    c.stays(sizes, "11", seconds=3)
    events = c.kubectl(f"get events -n {NS} --field-selector involvedObject.name={NAME}").ok().out
    assert "rift" not in events
    rows = {" ".join(line.split()) for line in c.ome(f"runtime effective {NAME} -n {NS}").ok().out.splitlines()}
    for row in (
        "Service PIN ManagedPin/Resolved",
        "Service SYNC Absent",
        "Service DRIFT ReportedTrue/RevisionMismatch",
        "Service LIVE-RELATION Different",
        "Live HASH af9539ac",
        "Active HASH 590753e8",
        f"Active REVISION {A}",
        f"Live RUNTIME SR/{NS}/{RUNTIME}",
    ):
        assert row in rows
    person.fraction("0.9")
    person.shows(pinned(A))
    c.eventually(sizes, "22")
    person.fraction("0.85")
    person.shows(DRIFTED)
    person.patch({"engine": {"minReplicas": 1, "maxReplicas": 1}}).ok()


@pytest.mark.spec("RR-9", "RR-10", "RR-11", "RR-34", "RR-35", "IS-36")
def test_3_roll_forward(person: Person) -> None:
    c = person.c
    assert person.annotate("mem-frac-0-85").out == f"inferenceservice.ome.io/{NAME} annotated\n"
    person.shows(pinned(B))
    assert person.token() == "mem-frac-0-85"
    person.shows_fraction("0.85")
    for kind in ("deployment", "service"):
        assert "runtime-sync" not in c.kubectl(f"get {kind} -n {NS} -o yaml").ok().out
    person.fraction("0.8")
    person.shows(DRIFTED.replace(A, B))
    person.annotate("mem-frac-0-85")
    c.stays(person.pin, DRIFTED.replace(A, B), seconds=3)
    person.fraction("0.85")
    person.shows(pinned(B))
    generation = person.generation()
    person.annotate("early-1")
    c.stays(lambda: (person.token(), person.generation()), ("mem-frac-0-85", generation), seconds=3)
    path = 'jsonpath={.status.conditions[?(@.type=="RuntimeDrifted")].status}{"\\n"}'
    watching = subprocess.Popen(
        ["kubectl", "get", "inferenceservice", NAME, "-n", NS, "-w", "-o", path],
        env=c.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(1)
        person.fraction("0.8")
        person.shows(pinned(PREFIX + "40a0481c"))
        assert person.token() == "early-1"
        time.sleep(0.5)
    finally:
        watching.terminate()
        seen, _ = watching.communicate(timeout=10)
    assert "True" not in seen
    person.fraction("0.85")
    person.annotate("back-1")
    person.shows(pinned(B))


@pytest.mark.spec("CR-1")
def test_4_runtime_sync(person: Person) -> None:
    c = person.c
    refused = c.ome(f"runtime sync {NAME} -n {NS} --yes")
    text = "error: action refused: managed runtime sync safety evidence is unavailable or inconsistent"
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[-1] == text
    person.fraction("0.75")
    person.shows(DRIFTED.replace(A, B))
    c.kubectl(f"rollout status deployment/{NAME}-engine -n {NS} --timeout=60s", timeout=70).ok()
    before = person.token()
    unanswered = c.ome(f"runtime sync {NAME} -n {NS}", stdin="")
    assert unanswered.code == 1
    assert unanswered.err.splitlines()[-1] == "error: action not confirmed; noninteractive input requires --yes"
    assert person.token() == before
    command = f"runtime sync {NAME} -n {NS} --yes -o json"
    synced = c.until(lambda: found if (found := c.ome(command)).code != 3 else None).ok()  # 3: changed meanwhile
    result = json.loads(synced.out)
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(uuid, result["requestID"])
    assert {key: result[key] for key in ("action", "dryRun", "revisionHash", "accepted", "applied", "message")} == {
        "action": "runtime sync",
        "dryRun": "none",
        "revisionHash": "03478b51",
        "accepted": True,
        "applied": True,
        "message": "API accepted annotation request; consumption and convergence not observed.",
    }
    waited = c.ome(f"wait {NAME} -n {NS} --for=runtime-sync=acknowledged --request-id={result['requestID']}").ok()
    rows = {" ".join(line.split()) for line in waited.out.splitlines()}
    for row in ("Outcome Matched", "Token state Acknowledged", "Drift state Clear", "Managed pin Managed"):
        assert row in rows
    assert person.token() == f"cli-runtime-sync-{result['requestID']}"
    other = "3f0c9a52-8d1e-4b7a-9c65-2e4f1d7b8a90"
    unmet = c.ome(f"wait {NAME} -n {NS} --for=runtime-sync=acknowledged --request-id={other} --timeout=2s")
    assert (unmet.code, unmet.err) == (2, "error: RequestedConditionUnmet\n")
    rows = {" ".join(line.split()) for line in unmet.out.splitlines()}
    assert "Outcome TimedOut" in rows
    assert rows & {"Token state Superseded", "Token state Absent"}
    person.fraction("0.85")
    person.annotate("back-2")
    person.shows(pinned(B))


@pytest.mark.spec("RR-14", "RR-15", "RR-16", "RR-17", "RR-23", "RR-34", "RR-38", "RR-41")
def test_5_roll_back(person: Person) -> None:
    c = person.c
    assert person.revision(A).ok().out == f"inferenceservice.ome.io/{NAME} configured\n"
    person.shows(pinned(A))
    person.shows_fraction("0.9")
    token, generation = person.token(), person.generation()
    person.fraction("0.8")
    person.annotate("ignored-1")
    c.stays(lambda: (person.pin(), person.token(), person.generation()), (pinned(A), token, generation), seconds=3)

    def reason(value: str, kind: str = "ServingRuntime", form: str = PREFIX) -> str:
        return (
            f'spec.runtime.revision "{value}" does not match the expected naming convention for runtime "{RUNTIME}" '
            f"({kind}); expected the form {form}<8 lowercase hex chars>"
        )

    values = (
        f"cr-{RUNTIME}-590753e8",
        PREFIX + "590753E8",
        PREFIX + "590753e",
        PREFIX + "590753e88",
        f"r-other-{RUNTIME}-590753e8",
        f"r-{NS}-other-590753e8",
    )
    for value in values:
        refused = person.patch({"runtime": {"revision": value}})
        assert (refused.code, refused.err) == (1, f"{DENIED}{reason(value)}\n")
    auto = person.patch({"runtime": {"autoSync": True}})
    text = "spec.runtime.revision requires spec.runtime.autoSync=false; AutoSync=true would silently ignore the pin"
    assert (auto.code, auto.err) == (1, f"{DENIED}{text}\n")
    cluster_kind = person.patch({"runtime": {"kind": "ClusterServingRuntime"}})
    assert cluster_kind.err == f"{DENIED}{reason(A, 'ClusterServingRuntime', f'cr-{RUNTIME}-')}\n"
    bad = SERVICE.replace("    autoSync: false\n", f"    autoSync: false\n    revision: cr-{RUNTIME}-590753e8\n")
    c.write("bad.yaml", bad)
    applied = c.kubectl("apply -f bad.yaml")
    assert applied.code == 1
    assert applied.err.startswith("Error from server (Forbidden): error when applying patch:\n")
    assert applied.err.endswith(
        'for: "bad.yaml": error when patching "bad.yaml": '
        + DENIED.removeprefix("Error from server (Forbidden): ")
        + reason(f"cr-{RUNTIME}-590753e8")
        + "\n"
    )
    c.write("bad.yaml", bad.replace("  name: llama-3-2-3b-instruct\n  namespace", "  name: other\n  namespace"))
    made = c.kubectl("create -f bad.yaml")
    assert made.err.startswith('Error from server (Forbidden): error when creating "bad.yaml": admission webhook')

    absent = PREFIX + "00000000"
    person.patch({"runtime": {"revision": absent}}).ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RevisionMissing\n")
    assert person.message() == f"explicit pin {absent} not found in namespace ome"
    assert person.generation() == generation
    four = SERVICE.replace("  name: llama-3-2-3b-instruct\n  namespace", "  name: four\n  namespace")
    c.write("four.yaml", four.replace("    autoSync: false\n", f"    autoSync: false\n    revision: {B}\n"))
    c.kubectl("apply -f four.yaml").ok()
    path = "jsonpath={.status.pinnedRevisionName}"
    c.eventually(lambda: c.kubectl(f"get inferenceservice four -n {NS} -o", path).ok().out, B)
    c.kubectl("delete -f four.yaml").ok()

    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    person.patch({"runtime": {"revision": A}}).ok()
    person.shows(pinned(A))
    person.revision(None).ok()
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)
    person.annotate("ignored-1")
    person.shows(pinned(PREFIX + "40a0481c"))


@pytest.mark.spec("RR-40")
def test_5_the_list_and_its_rights(person: Person) -> None:
    c = person.c
    columns = "custom-columns=NAME:.metadata.name,CREATED:.metadata.creationTimestamp"
    command = f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} --sort-by=.metadata.creationTimestamp -o"
    rows = c.kubectl(command, columns).ok().out.splitlines()
    assert rows[0].split() == ["NAME", "CREATED"]
    like(f"{A}   <time>", rows[1])
    times = [row.split()[1] for row in rows[1:]]
    assert times == sorted(times)
    rules = [{"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": ["list"]}]
    c.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "lister", "namespace": "ome"},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "lister", "namespace": "ome"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lister"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
        },
    )
    named = f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} -o name"
    c.until(lambda: c.kubectl(f"--as ann {named}").code == 0)
    bob = c.kubectl(f"--as bob {named}")
    assert (bob.code, bob.err) == (
        1,
        'Error from server (Forbidden): controllerrevisions.apps is forbidden: User "bob" cannot list resource '
        '"controllerrevisions" in API group "apps" in the namespace "ome"\n',
    )


@pytest.mark.spec("RR-24", "RR-45")
def test_7_stop_pinning(person: Person) -> None:
    c = person.c
    person.revision(A).ok()
    person.shows(pinned(A))
    person.shows_fraction("0.9")
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)
    person.patch({"runtime": {"autoSync": True}}).ok()
    person.shows_fraction("0.8")
    assert person.pin() == DRIFTED
    person.fraction("0.85")
    person.shows_fraction("0.85")
    person.patch({"runtime": {"autoSync": False}}).ok()
    c.stays(lambda: (person.pin(), "--mem-frac=0.85" in person.arguments()), (DRIFTED, True), seconds=2)
    person.annotate("live-again")
    person.shows(pinned(B))
    person.patch({"runtime": {"revision": A}}).ok()
    person.shows_fraction("0.9")
    person.patch({"runtime": {"revision": None, "autoSync": True}}).ok()
    person.shows_fraction("0.85")
    assert person.pin() == pinned(A)
    person.patch({"runtime": {"autoSync": False}}).ok()
    person.annotate("live-once-more")
    person.shows(pinned(B))


@pytest.mark.spec("RR-18", "RR-19", "RR-20", "RR-25", "RR-37", "RR-42", "RR-47")
def test_8_every_reason(person: Person) -> None:
    c = person.c
    person.revision(A).ok()
    person.shows(pinned(A))
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)
    kept = c.get(f"controllerrevision {A} -n ome")
    c.kubectl(f"delete controllerrevision {A} -n ome").ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RevisionMissing\n")
    assert person.message() == f"pinned revision {A} missing from ome"
    person.annotate("does-not-help")
    c.stays(person.pin, f"{HEAD}{NAME}   {A}   True      RevisionMissing\n", seconds=2)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        kept["metadata"].pop(key, None)
    c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()
    c.kubectl("create -f -", stdin=json.dumps(kept)).ok()
    person.shows(DRIFTED)

    foreign = PREFIX + "0badc0de"
    c.kubectl(
        "create -f -",
        stdin=json.dumps(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": foreign, "namespace": "ome", "labels": {"ome.io/runtime-of": "other"}},
                "revision": 1,
                "data": {},
            }
        ),
    ).ok()
    person.patch({"runtime": {"revision": foreign}}).ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RuntimeMismatch\n")
    assert person.message() == f'revision {foreign} belongs to runtime "other" but ISVC references "{RUNTIME}"'
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED)

    c.kubectl(f"delete servingruntime {RUNTIME} -n {NS}").ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      SourceRuntimeMissing\n")
    assert person.message() == f"runtime {RUNTIME} not found; serving from pinned revision {A}"
    c.kubectl(f"delete deployment {NAME}-engine -n {NS}").ok()
    person.shows_fraction("0.9")
    text = f"runtime {RUNTIME} does not support model {NAME}: ServingRuntime {RUNTIME} not found in namespace {NS}"
    for command in (f"label inferenceservice {NAME} -n {NS} x=y", f"annotate inferenceservice {NAME} -n {NS} x=y"):
        refused = c.kubectl(command)
        assert (refused.code, refused.err) == (1, f"{DENIED}{text}\n")
    path = c.folder / "runtime.yaml"
    enabled = path.read_text()
    path.write_text(enabled.replace("spec:\n", "spec:\n  disabled: true\n", 1))
    c.kubectl("apply -f runtime.yaml").ok()
    person.shows(DRIFTED)
    text = f"runtime {RUNTIME} does not support model {NAME}: namespace-scoped runtime {RUNTIME} is disabled"
    refused = c.kubectl(f"label inferenceservice {NAME} -n {NS} x=y")
    assert (refused.code, refused.err) == (1, f"{DENIED}{text}\n")
    path.write_text(enabled)
    c.kubectl("apply -f runtime.yaml").ok()
    person.fraction("0.9")
    person.shows(pinned(A))


@pytest.mark.spec("RR-21")
def test_8_runtime_pin_error(person: Person) -> None:
    c = person.c
    c.apply(
        {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "late", "namespace": NS},
            "spec": {
                "runtime": {"name": "not-there-yet", "kind": "ServingRuntime", "autoSync": False},
                "engine": {"minReplicas": 1, "maxReplicas": 1},
            },
        }
    )
    command = f"get events -n {NS} --field-selector involvedObject.name=late,reason=RuntimePinError -o"
    wanted = (
        "TYPE      MESSAGE\nWarning   resolve live runtime not-there-yet: "
        f"ServingRuntime not-there-yet not found in namespace {NS}\n"
    )
    columns = "custom-columns=TYPE:.type,MESSAGE:.message"
    c.eventually(lambda: c.kubectl(command, columns).ok().out, wanted)
    assert c.kubectl(f"get deployment late-engine -n {NS}").code == 1
    text = (c.folder / "runtime.yaml").read_text()
    c.kubectl("apply -f -", stdin=text.replace(f"name: {RUNTIME}", "name: not-there-yet")).ok()
    c.until(lambda: "not-there-yet" in person.pin("late"), timeout=30)
    c.kubectl(f"delete inferenceservice late -n {NS}").ok()
    c.kubectl(f"delete servingruntime not-there-yet -n {NS}").ok()


@pytest.mark.spec("RR-43")
def test_8_readiness_stays_honest_while_drifted(person: Person) -> None:
    c = person.c
    person.revision(None).ok()
    person.shows(pinned(A))
    person.fraction("0.85")
    person.shows(DRIFTED)
    wait = f"wait --for=condition=Ready={{}} inferenceservice/{NAME} -n {NS} --timeout=60s"
    c.kubectl(wait.format("True"), timeout=70).ok()
    c.local("image deny", "*sglang*", *(["--kubeconfig", str(c.kubeconfig)] if c.real else [])).ok()
    selector = f"ome.io/inferenceservice={NAME}"
    c.kubectl(f"delete pod -n {NS} -l {selector} --wait=false").ok()
    c.kubectl(wait.format("False"), timeout=70).ok()
    assert person.pin() == DRIFTED
    c.local("image allow", "*sglang*", *(["--kubeconfig", str(c.kubeconfig)] if c.real else [])).ok()
    c.kubectl(wait.format("True"), timeout=70).ok()
    assert person.pin() == DRIFTED


@pytest.mark.spec("RR-26", "RR-27", "RR-29", "MA-7")
def test_9_garbage_collection(person: Person) -> None:
    c = person.c
    person.fraction("0.9")
    person.shows(pinned(A))
    c.kubectl("delete controllerrevision -n ome --all").ok()
    person.revision(None).ok()
    c.kubectl(f"delete inferenceservice {NAME} -n {NS}").ok()
    c.kubectl("apply -f isvc.yaml").ok()
    person.shows(pinned(A))
    c.kubectl(
        "create -f -",
        stdin=json.dumps(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": "foreign", "namespace": "ome", "labels": {"ome.io/runtime-of": RUNTIME}},
                "revision": 1,
                "data": {},
            }
        ),
    ).ok()
    for number in range(12):
        person.fraction(f"0.{10 + number}")
        person.annotate(f"step-{number}")
        c.until(lambda n=number: person.token() == f"step-{n}")
        time.sleep(1.05)  # creation times have whole seconds, and the order is by them
    assert len(person.revisions()) >= 11
    marks = r"custom-columns=NAME:.metadata.name,MARKED:.metadata.annotations.ome\.io/gc-eligible-since"
    command = f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} --sort-by=.metadata.creationTimestamp -o"
    rows = [line.split() for line in c.kubectl(command, marks).ok().out.splitlines()[1:] if "foreign" not in line]
    assert [row[1] for row in rows[-10:]] == ["<none>"] * 10
    assert all(row[1].endswith("Z") for row in rows[:-10])
    c.until(lambda: len(person.revisions()) == 11, timeout=40, what="three revisions to be collected")
    left = person.revisions()
    assert "foreign" in left
    assert {row[0] for row in rows[-10:]} <= set(left)
    name = next(found for found in left if found != "foreign")
    for patch, text in (
        ('{"revision":2}', ".revision is immutable"),
        ('{"metadata":{"labels":{"x":"y"}}}', ".labels are immutable"),
    ):
        refused = c.kubectl(f"patch controllerrevision {name} -n ome --type=merge -p", patch)
        assert f"ControllerRevision ome/{name} is owned by OME; {text}" in refused.err
    # The API server's own rule on data stands before the webhook's.
    data = c.kubectl(f"patch controllerrevision {name} -n ome --type=merge -p", '{"data":{"x":1}}')
    assert data.code == 1
    assert "immutable" in data.err
    c.kubectl(f"annotate controllerrevision {name} -n ome x=y").ok()
