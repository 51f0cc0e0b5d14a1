"""The webhooks of both runtime kinds: the checks of `spec/serving-runtimes.md` section 3, the engine preset of 2.6."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ome.admission.review import Verdict, allow, deny, first_denial
from ome.admission.services.autoscaling import autoscaler_problem, scaling_policy_problem
from ome.admission.world import World
from ome.api import keys
from ome.runtimes.inheritance import ChainError, resolve_chain
from ome.runtimes.reading import Runtime, RuntimeKind

Json = dict[str, Any]

CONFIGS: Final = {"engineConfig": "engine", "decoderConfig": "decoder", "routerConfig": "router"}


@dataclass(frozen=True)
class RuntimeProposal:
    new: Json
    kind: RuntimeKind
    world: World

    @cached_property
    def spec(self) -> Json:
        return self.new.get("spec") or {}

    @cached_property
    def annotations(self) -> dict[str, str]:
        return (self.new.get("metadata") or {}).get("annotations") or {}

    @property
    def disabled(self) -> bool:
        return self.spec.get("disabled") is True

    @cached_property
    def runtime(self) -> Runtime:
        metadata = self.new.get("metadata") or {}
        namespaced = self.kind is RuntimeKind.NAMESPACED
        return Runtime(
            kind=self.kind,
            name=metadata.get("name", ""),
            namespace=metadata.get("namespace", "") if namespaced else "",
            spec=self.spec,
            annotations=self.annotations,
        )


Rule = Callable[[RuntimeProposal], str]


def inheritance(proposal: RuntimeProposal) -> str:
    try:
        resolve_chain(proposal.runtime, proposal.world)
    except ChainError as error:
        return str(error)
    return ""


def profile(proposal: RuntimeProposal) -> str:
    if proposal.annotations.get(keys.RUNTIME_PROFILE) != "true" or proposal.disabled:
        return ""
    return 'runtimes carrying ome.io/runtime-profile="true" must also set spec.disabled: true'


def scaling_policy(proposal: RuntimeProposal) -> str:
    return scaling_policy_problem(proposal.spec.get("scalingPolicy"), "spec.scalingPolicy")


def no_policy_references(proposal: RuntimeProposal) -> str:
    for config in CONFIGS:
        if (proposal.spec.get(config) or {}).get("autoscalerPolicyRef") is not None:
            return (
                f"spec.{config}.autoscalerPolicyRef is not accepted in a runtime; set it on the InferenceService's "
                "component (AutoscalerPolicyRefInRuntime)"
            )
    return ""


def autoscalers(proposal: RuntimeProposal) -> str:
    problems = (autoscaler_problem(component, proposal.spec.get(config) or {}) for config, component in CONFIGS.items())
    return next((problem for problem in problems if problem), "")


def priorities(proposal: RuntimeProposal) -> str:
    """Entries that OME may select and that share a name (or have none) share one priority."""
    found: dict[str, set[int]] = defaultdict(set)
    for entry in proposal.spec.get("supportedModelFormats") or []:
        if entry.get("autoSelect") is True:
            found[entry.get("name") or ""].add(entry.get("priority") or 1)
    for name, values in found.items():
        if len(values) > 1:
            return f"different priorities assigned for the model format {name}".rstrip()
    return ""


def accelerator_classes(proposal: RuntimeProposal) -> str:
    named = (proposal.spec.get("acceleratorRequirements") or {}).get("acceleratorClasses") or []
    if not named:
        return ""
    known = proposal.world.accelerator_classes()
    unknown = [name for name in named if name not in known]
    if not unknown:
        return ""
    return f"unknown accelerator classes referenced in AcceleratorRequirements: [{' '.join(unknown)}]"


FOR_EVERY: Final[tuple[Rule, ...]] = (inheritance, profile, scaling_policy, no_policy_references)
FOR_ENABLED: Final[tuple[Rule, ...]] = (autoscalers, priorities, accelerator_classes)


def validate_runtime(new: Json, kind: RuntimeKind, world: World) -> Verdict:
    """Admit or deny a create or an update; a disabled runtime gets only the checks that matter to its descendants."""
    proposal = RuntimeProposal(new, kind, world)
    rules = FOR_EVERY if proposal.disabled else FOR_EVERY + FOR_ENABLED
    denial = first_denial(rules, proposal)
    return deny(denial) if denial else allow()


# -- the engine preset -------------------------------------------------------------------------------------------------

SGLANG_PD: Final = "sglang-pd"
_SGLANG: Final = "lmsysorg/sglang:latest"
_ROUTER: Final = "lmsysorg/sglang-router:latest"
_ENGINE_PORT: Final = 30000
_ROUTER_PORT: Final = 30080
_BOOTSTRAP_PORT: Final = 8998


def default_runtime(new: Json) -> Verdict:
    """Fill the preset of `ome.io/engine` into what is unset; the runtime's own fields win. Other values are denied."""
    annotations = (new.get("metadata") or {}).get("annotations") or {}
    engine = annotations.get(keys.ENGINE_PRESET)
    if engine is None:
        return allow()
    if engine != SGLANG_PD:
        return deny(f'annotation "{keys.ENGINE_PRESET}" must be {SGLANG_PD}, got "{engine}"')
    spec = new.get("spec") or {}
    filled = {config: _filled(spec.get(config) or {}, runner) for config, runner in _preset().items()}
    return allow(
        patch=[
            {"op": "add", "path": f"/spec/{config}", "value": value}
            for config, value in filled.items()
            if value != spec.get(config)
        ]
    )


def _filled(config: Json, runner: Json) -> Json:
    own = config.get("runner") or {}
    return {
        **config,
        "runner": {**runner, **{name: value for name, value in own.items() if value not in (None, [], "")}},
    }


def _preset() -> dict[str, Json]:
    prefill = ["--disaggregation-mode=prefill", f"--disaggregation-bootstrap-port={_BOOTSTRAP_PORT}"]
    return {
        "engineConfig": _server(prefill, [{"name": "bootstrap", "containerPort": _BOOTSTRAP_PORT, "protocol": "TCP"}]),
        "decoderConfig": _server(["--disaggregation-mode=decode"], []),
        "routerConfig": {
            "name": "router",
            "image": _ROUTER,
            "ports": [{"name": "http", "containerPort": _ROUTER_PORT, "protocol": "TCP"}],
            "args": [
                "--pd-disaggregation",
                "--service-discovery",
                "--service-discovery-namespace={{.Namespace}}",
                "--prefill-selector=component=engine ome.io/inferenceservice={{.Name}}",
                "--decode-selector=component=decoder ome.io/inferenceservice={{.Name}}",
                "--host=0.0.0.0",
                f"--port={_ROUTER_PORT}",
            ],
        },
    }


def _server(mode: list[str], more_ports: list[Json]) -> Json:
    return {
        "name": "ome-container",
        "image": _SGLANG,
        "command": ["python3", "-m", "sglang.launch_server"],
        "args": ["--model-path=$(MODEL_PATH)", "--host=0.0.0.0", f"--port={_ENGINE_PORT}", *mode],
        "ports": [{"name": "http", "containerPort": _ENGINE_PORT, "protocol": "TCP"}, *more_ports],
    }
