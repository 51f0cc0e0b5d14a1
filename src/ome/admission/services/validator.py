"""The validating webhook of InferenceServices: the rules in their order, then the warnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ome.admission.review import ALLOWED, Verdict, allow, deny, first_denial
from ome.admission.services import autoscaling, placement, references, rollouts, shape, traffic
from ome.admission.services.proposal import Features, Json, Proposal
from ome.admission.world import World
from ome.api import keys

Rule = Callable[[Proposal], str]

BEFORE_RUNTIME: Final[tuple[Rule, ...]] = (
    autoscaling.legacy_fields,
    autoscaling.scaling_policy,
    shape.migration_requests,
    shape.ready_policy,
    references.name_is_free,
    references.replica_references,
    shape.service_name,
    autoscaling.annotated_class,
    autoscaling.component_autoscalers,
    autoscaling.annotation_and_block,
    autoscaling.policy_references,
    autoscaling.utilization,
    shape.decoder_needs_engine,
    shape.leader_and_worker,
    shape.lean_multi_pod,
    shape.mode_combination,
    autoscaling.scale_to_zero,
    autoscaling.replica_bounds,
    shape.disruption_budgets,
    placement.placement_and_routing,
    traffic.traffic_spec,
    traffic.traffic_annotations,
    rollouts.rollout_groups,
    shape.lifecycles,
    references.something_named,
    references.pin,
    references.model_exists,
    references.claim_is_reachable,
    references.overlays,
)
"""Rules 1 to 28 of `spec/inference-service.md` section 10, in evaluation order."""


def validate_service(new: Json, old: Json | None, world: World, features: Features) -> Verdict:
    """Admit or deny a create (`old` None) or an update. An object that is being deleted may always be updated."""
    if old is not None and (old.get("metadata") or {}).get("deletionTimestamp"):
        return ALLOWED
    proposal = Proposal(new, old, world, features)
    denial = first_denial(BEFORE_RUNTIME, proposal)
    if denial:
        return deny(denial)
    finding = references.runtime(proposal)
    denial = finding.denial or rollouts.ordering(proposal)
    if denial:
        return deny(denial)
    found = [finding.warning] if finding.warning else []
    return allow(
        warnings=[*found, *_ignored_strategies(proposal), *rollouts.warnings(proposal), *traffic.warnings(proposal)]
    )


def _ignored_strategies(proposal: Proposal) -> list[str]:
    mode = proposal.annotations.get(keys.DEPLOYMENT_MODE) or proposal.service.spec.deployment_mode
    if not mode or mode == "RawDeployment":
        return []
    return [
        f'{component}.deploymentStrategy is set but deploymentMode is "{mode}"; deploymentStrategy applies only to '
        f"RawDeployment and is ignored here — use {component}.lifecycle.updateStrategy.rollingUpdate for rollout pacing"
        for component, spec in proposal.components.items()
        if spec.get("deploymentStrategy") is not None
    ]
