"""The walkthrough of runtime revisions and pinning, sections 1 to 5, for a person at a terminal.

Not a test: `test_runtime_revisions.py` walks it with a Deployment under the service, and
`test_runtime_revisions_omenative.py` with an InferenceReplica. What is printed must be the same, line for line; a
`Workload` knows where the one and the other are looked at.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.support.scenario import Ran, ScenarioCluster, like

ROOT = Path(__file__).resolve().parents[2]
NS, NAME, RUNTIME = "llama-demo", "llama-3-2-3b-instruct", "sglang-llama-3-2-3b"
PREFIX = f"r-{NS}-{RUNTIME}-"
A, B = PREFIX + "590753e8", PREFIX + "af9539ac"
AT_075, AT_08 = PREFIX + "03478b51", PREFIX + "40a0481c"
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
UNSAFE = "error: action refused: managed runtime sync safety evidence is unavailable or inconsistent"
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


def line(fraction: str) -> str:
    """What `args` prints."""
    return (
        '["--host=0.0.0.0","--port=8080","--model-path=$(MODEL_PATH)",'
        f'"--served-model-name=llama-3-2-3b-instruct","--tp-size=1","--mem-frac={fraction}"]'
    )


def rows(text: str) -> set[str]:
    """The rows of a table, each with single blanks."""
    return {" ".join(row.split()) for row in text.splitlines()}


class Workload(Protocol):
    """What stands under the engine, and how a person looks at it."""

    mode: str
    """The lines of isvc.yaml that choose it."""
    kind: str
    carriers: tuple[str, ...]
    """Kinds of the objects that the service brings about."""

    def arguments(self, cluster: ScenarioCluster) -> str: ...

    def settled(self, cluster: ScenarioCluster, fraction: str) -> None:
        """Wait until the roll to `fraction` is over: a pin is shown before its roll begins."""

    def rolling(self, cluster: ScenarioCluster, fraction: str) -> Any:
        """A block that makes the engine roll to `fraction`; it ends when the engine has, and judges how it did."""


class RawWorkload:
    """A Deployment: its pod template is looked at, as the seed does."""

    mode = ""
    kind = "deployment"
    carriers = ("deployment", "service")

    def arguments(self, cluster: ScenarioCluster) -> str:
        path = 'jsonpath={.spec.template.spec.containers[?(@.name=="ome-container")].args}'
        return cluster.kubectl(f"get deployment {NAME}-engine -n {NS} -o", path).out

    def settled(self, cluster: ScenarioCluster, fraction: str) -> None:
        cluster.eventually(lambda: self.arguments(cluster), line(fraction))
        cluster.kubectl(f"rollout status deployment/{NAME}-engine -n {NS} --timeout=120s").ok()

    @contextmanager
    def rolling(self, cluster: ScenarioCluster, fraction: str) -> Iterator[None]:
        yield
        cluster.eventually(lambda: self.arguments(cluster), line(fraction))


class Person:
    """Somebody at a terminal, with the document's files in the working folder."""

    def __init__(self, cluster: ScenarioCluster, workload: Workload) -> None:
        self.c = cluster
        self.workload = workload
        self.service = SERVICE.replace("spec:\n", f"spec:\n{workload.mode}")

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
        ready = c.kubectl(f"wait --for=jsonpath={{.status.state}}=Ready clusterbasemodel/{NAME} --timeout=120s").ok()
        assert ready.out == f"clusterbasemodel.ome.io/{NAME} condition met\n"
        c.write("runtime.yaml", CANONICAL_RUNTIME.read_text())
        applied = c.kubectl("apply -f runtime.yaml").ok()
        assert (applied.out, applied.err) == (f"servingruntime.ome.io/{RUNTIME} created\n", "")
        c.write("isvc.yaml", self.service)

    # -- the shorthands of the walkthrough ---------------------------------------------------------------------------

    def pin(self, name: str = NAME) -> str:
        return self.c.kubectl(f"get inferenceservice {name} -n {NS} -o", COLUMNS).ok().out

    def message(self) -> str:
        path = 'jsonpath={.status.conditions[?(@.type=="RuntimeDrifted")].message}'
        return self.c.kubectl(f"get inferenceservice {NAME} -n {NS} -o", path).ok().out

    def arguments(self) -> str:
        return self.workload.arguments(self.c)

    def generation(self) -> str:
        path = "jsonpath={.metadata.generation}"
        return self.c.kubectl(f"get {self.workload.kind} {NAME}-engine -n {NS} -o", path).ok().out

    def token(self) -> str:
        path = "jsonpath={.status.lastRuntimeSyncToken}"
        return self.c.kubectl(f"get inferenceservice {NAME} -n {NS} -o", path).ok().out

    def fraction(self, value: str) -> Ran:
        path = self.c.folder / "runtime.yaml"
        path.write_text(re.sub(r"--mem-frac=[0-9.]+", f"--mem-frac={value}", path.read_text()))
        return self.c.kubectl("apply -f runtime.yaml").ok()

    def annotate(self, value: str) -> Ran:
        return self.c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync={value} --overwrite").ok()

    def withdraw_token(self) -> None:
        self.c.kubectl(f"annotate inferenceservice {NAME} -n {NS} ome.io/runtime-sync-").ok()

    def patch(self, spec: dict[str, object]) -> Ran:
        body = json.dumps({"spec": spec})
        return self.c.kubectl(f"patch inferenceservice {NAME} -n {NS} --type=merge -p", body)

    def shows(self, table: str) -> None:
        self.c.eventually(self.pin, table)

    def shows_fraction(self, value: str) -> None:
        self.c.until(lambda: f"--mem-frac={value}" in self.arguments(), what=f"args with {value}")

    def condition(self, kind: str) -> dict[str, str]:
        found = self.c.get(f"inferenceservice {NAME} -n {NS}")
        return next((c for c in found["status"].get("conditions", []) if c["type"] == kind), {})

    def revisions(self) -> list[str]:
        out = self.c.kubectl(f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} -o name").ok().out
        return sorted(name.removeprefix("controllerrevision.apps/") for name in out.splitlines())

    def revision(self, name: str | None) -> Ran:
        """Apply isvc.yaml with `revision` under autoSync, or without."""
        more = "    autoSync: false\n" + (f"    revision: {name}\n" if name else "")
        self.c.write("isvc.yaml", self.service.replace("    autoSync: false\n", more))
        return self.c.kubectl("apply -f isvc.yaml")

    def sizes(self) -> tuple[str, str]:
        """The count of the workload and the least that its autoscaler asks for."""
        get = f"get {{}} {NAME}-engine -n {NS} -o"
        count = self.c.kubectl(get.format(self.workload.kind), "jsonpath={.spec.replicas}").ok().out
        return count, self.c.kubectl(get.format("hpa"), "jsonpath={.spec.minReplicas}").ok().out

    def sync(self, *more: str, **options: Any) -> Ran:
        return self.c.ome(f"runtime sync {NAME} -n {NS}", *more, **options)

    def refused_sync(self, text: str) -> None:
        """`runtime sync` prints nothing but one refusal, and leaves the annotation."""
        path = r"jsonpath={.metadata.annotations.ome\.io/runtime-sync}"
        command = f"get inferenceservice {NAME} -n {NS} -o"
        before = self.c.kubectl(command, path).ok().out
        refused = self.sync("--yes")
        assert (refused.code, refused.out, refused.err.splitlines()[-1:]) == (1, "", [text])
        assert self.c.kubectl(command, path).ok().out == before

    @contextmanager
    def another(self, name: str, service: str = "") -> Iterator[None]:
        """A second service for the time of the block, like the first."""
        text = service or self.service
        named = text.replace("  name: llama-3-2-3b-instruct\n  namespace", f"  name: {name}\n  namespace")
        self.c.write(f"{name}.yaml", named)
        self.c.kubectl(f"apply -f {name}.yaml").ok()
        yield
        self.c.kubectl(f"delete -f {name}.yaml").ok()

    def becomes_pinned(self, name: str, revision: str) -> None:
        path = "jsonpath={.status.pinnedRevisionName}"
        self.c.eventually(lambda: self.c.kubectl(f"get inferenceservice {name} -n {NS} -o", path).ok().out, revision)


def walk_pin(person: Person) -> None:
    """Section 1."""
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
    c.eventually(person.arguments, line("0.9"))
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
    ready = c.kubectl(f"wait --for=condition=Ready inferenceservice/{NAME} -n {NS} --timeout=120s").ok()
    assert ready.out == f"inferenceservice.ome.io/{NAME} condition met\n"
    with person.another("two"):
        person.becomes_pinned("two", A)
    with person.another("three", person.service.replace("    kind: ServingRuntime\n", "")):
        person.becomes_pinned("three", A)
    assert person.revisions() == [A]
    without = re.sub(r"  runtime:\n(    .*\n)+", "", person.service)
    with person.another("unnamed", without):
        c.until(lambda: c.kubectl(f"get {person.workload.kind} unnamed-engine -n {NS}").code == 0)
        person.becomes_pinned("unnamed", "")


def walk_drift(person: Person) -> None:
    """Section 2: the runtime changes."""
    c = person.c
    generation, ready = person.generation(), person.condition("Ready")
    assert person.fraction("0.85").out == f"servingruntime.ome.io/{RUNTIME} configured\n"
    person.shows(DRIFTED)
    assert person.message() == f"pinned {A}, live spec differs; bump ome.io/runtime-sync annotation to advance"
    assert person.generation() == generation
    assert person.arguments() == line("0.9")
    assert person.condition("Ready") == ready
    two = {"engine": {"minReplicas": 2, "maxReplicas": 2}}
    assert person.patch(two).ok().out == f"inferenceservice.ome.io/{NAME} patched\n"
    c.stays(lambda: (person.sizes(), person.generation()), (("1", "1"), generation), seconds=3)
    events = c.kubectl(f"get events -n {NS} --field-selector involvedObject.name={NAME}").ok().out
    assert "rift" not in events
    shown = rows(c.ome(f"runtime effective {NAME} -n {NS}").ok().out)
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
        assert row in shown
    person.fraction("0.9")
    person.shows(pinned(A))
    c.eventually(person.sizes, ("2", "2"))
    person.fraction("0.85")
    person.shows(DRIFTED)
    person.patch({"engine": {"minReplicas": 1, "maxReplicas": 1}}).ok()


def walk_forward(person: Person) -> None:
    """Section 3, and what of section 5 wants a cluster where no more than this has happened."""
    c = person.c
    with person.workload.rolling(c, "0.85"):
        assert person.annotate("mem-frac-0-85").out == f"inferenceservice.ome.io/{NAME} annotated\n"
        person.shows(pinned(B))
        assert person.token() == "mem-frac-0-85"
    for kind in person.workload.carriers:
        assert "runtime-sync" not in c.kubectl(f"get {kind} -n {NS} -o yaml").ok().out
    _lists(person)

    person.fraction("0.8")
    person.shows(DRIFTED.replace(A, B))
    generation = person.generation()
    assert person.annotate("mem-frac-0-85").out == f"inferenceservice.ome.io/{NAME} annotated\n"
    c.stays(lambda: (person.pin(), person.generation()), (DRIFTED.replace(A, B), generation), seconds=3)
    person.fraction("0.85")
    person.shows(pinned(B))
    generation = person.generation()
    person.annotate("early-1")
    c.stays(lambda: (person.token(), person.generation()), ("mem-frac-0-85", generation), seconds=3)
    path = 'jsonpath={.status.conditions[?(@.type=="RuntimeDrifted")].status}{"\\n"}'
    with c.watch(f"get inferenceservice {NAME} -n {NS} -o", path) as watch:
        c.until(lambda: watch.text, what="the watch")
        person.fraction("0.8")
        person.shows(pinned(AT_08))
        assert person.token() == "early-1"
        time.sleep(0.5)
    assert "True" not in watch.text
    person.fraction("0.85")
    person.annotate("back-1")
    person.shows(pinned(B))


def _lists(person: Person) -> None:
    """5.1 to 5.3: the two revisions, who may see them, and the plugin's view of them."""
    c = person.c
    columns = "custom-columns=NAME:.metadata.name,CREATED:.metadata.creationTimestamp"
    command = f"get controllerrevisions -n ome -l ome.io/runtime-of={RUNTIME} --sort-by=.metadata.creationTimestamp -o"
    listed = c.kubectl(command, columns).ok().out
    like(f"NAME                                        CREATED\n{A}   <time>\n{B}   <time>\n", listed)
    times = [row.split()[1] for row in listed.splitlines()[1:]]
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
    head = (
        "OBSERVATION   COMPLETENESS       PAGES   REVISION                                    CREATED                "
        "HASH       ROLES                     SOURCE                                          CONSISTENCY   "
        "RELATION          REVISION-ISSUES   REPORT-ISSUES\n"
    )
    source = f"ServingRuntime/{NS}/{RUNTIME}"
    like(
        f"{head}Complete      RetentionBounded   1/1     {B}   <time>   af9539ac   Active,Reported,History   {source}"
        "   Consistent    MatchesLive       -                 -\n"
        f"Complete      RetentionBounded   1/1     {A}   <time>   590753e8   History                   {source}"
        "   Consistent    DiffersFromLive   -                 -\n",
        c.ome(f"runtime history {NAME} -n {NS} -o wide").ok().out,
    )
    short = rows(c.ome(f"runtime history {NAME} -n {NS}").ok().out)
    for alias, roles, live in (("r-...#daecf07f", "ARH", "MATCH"), ("r-...#1cd9e1bc", "H", "DIFF")):
        assert any(re.fullmatch(rf"C/B/1/1 {alias} \S+ {roles} OK {live} R0/G0", row) for row in short), short


def walk_sync(person: Person) -> None:
    """Section 4: kubectl ome runtime sync."""
    c = person.c
    person.workload.settled(c, "0.85")
    person.refused_sync(UNSAFE)
    person.fraction("0.75")
    person.shows(DRIFTED.replace(A, B))
    before = person.token()
    unanswered = person.sync(stdin="")
    assert unanswered.code == 1
    assert unanswered.err.startswith("ALPHA runtime sync preview (acceptance is not convergence)\n")
    assert unanswered.err.splitlines()[-1] == "error: action not confirmed; noninteractive input requires --yes"
    assert person.token() == before
    # 3: a status changed between preview and patch
    synced = c.until(lambda: found if (found := person.sync("--yes", "-o", "json")).code != 3 else None).ok()
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
    shown = rows(waited.out)
    for row in ("Outcome Matched", "Token state Acknowledged", "Drift state Clear", "Managed pin Managed"):
        assert row in shown
    assert person.token() == f"cli-runtime-sync-{result['requestID']}"
    other = "3f0c9a52-8d1e-4b7a-9c65-2e4f1d7b8a90"
    unmet = c.ome(f"wait {NAME} -n {NS} --for=runtime-sync=acknowledged --request-id={other} --timeout=5s")
    assert (unmet.code, unmet.err) == (2, "error: RequestedConditionUnmet\n")
    shown = rows(unmet.out)
    assert "Outcome TimedOut" in shown
    assert shown & {"Token state Superseded", "Token state Absent"}
    # Refused as well: a token that waits, and a pin by `revision`.
    person.annotate("waiting-1")
    assert "Service SYNC Pending" in rows(c.ome(f"runtime effective {NAME} -n {NS}").ok().out)
    person.refused_sync(UNSAFE)
    person.withdraw_token()
    person.fraction("0.85")
    person.shows(DRIFTED.replace(A, AT_075))
    person.patch({"runtime": {"revision": AT_075}}).ok()
    person.shows(pinned(AT_075))
    person.refused_sync(UNSAFE)
    person.patch({"runtime": {"revision": None}}).ok()
    person.shows(DRIFTED.replace(A, AT_075))
    person.annotate("back-2")
    person.shows(pinned(B))


def walk_back(person: Person) -> None:
    """Section 5: roll back."""
    c = person.c
    person.workload.settled(c, "0.85")
    with person.workload.rolling(c, "0.9"):
        assert person.revision(A).ok().out == f"inferenceservice.ome.io/{NAME} configured\n"
        person.shows(pinned(A))
    token, generation = person.token(), person.generation()
    person.fraction("0.8")
    person.annotate("ignored-1")
    c.stays(lambda: (person.pin(), person.token(), person.generation()), (pinned(A), token, generation), seconds=3)
    _refusals(person)

    absent = PREFIX + "00000000"
    person.patch({"runtime": {"revision": absent}}).ok()
    person.shows(f"{HEAD}{NAME}   {A}   True      RevisionMissing\n")
    assert person.message() == f"explicit pin {absent} not found in namespace ome"
    assert (person.generation(), person.arguments()) == (generation, line("0.9"))
    with person.another(
        "four", person.service.replace("    autoSync: false\n", f"    autoSync: false\n    revision: {B}\n")
    ):
        person.becomes_pinned("four", B)

    person.withdraw_token()
    person.patch({"runtime": {"revision": A}}).ok()
    person.shows(pinned(A))
    assert person.revision(None).ok().out == f"inferenceservice.ome.io/{NAME} configured\n"
    person.shows(DRIFTED)
    person.annotate("ignored-1")
    person.shows(pinned(AT_08))
    person.patch({"runtime": {"revision": A}}).ok()
    person.shows(pinned(A))
    person.annotate("ignored-2")
    person.patch({"runtime": {"revision": None}}).ok()  # the token waited: it advances at once
    person.shows(pinned(AT_08))
    assert person.token() == "ignored-2"


def _refusals(person: Person) -> None:
    """5.6: what the webhook denies, and how kubectl prints it."""
    c = person.c

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
    wrong = f"    autoSync: false\n    revision: cr-{RUNTIME}-590753e8\n"
    bad = person.service.replace("    autoSync: false\n", wrong)
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
