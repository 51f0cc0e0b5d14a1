"""The steps of the pod webhook, in order."""

from __future__ import annotations

from typing import Any

from ome.admission.pods.draft import PodDenied, PodDraft
from ome.admission.pods.helpers import inject_adapter, inject_model_init, inject_serving_sidecar
from ome.admission.pods.metrics import set_metrics
from ome.admission.pods.profiles import apply_profiles
from ome.admission.pods.rdma import inject_rdma
from ome.admission.review import ALLOWED, Verdict, allow, deny
from ome.api import keys
from ome.api.config import OperatorConfig

Json = dict[str, Any]


def named_weight(pod: Json) -> str:
    """The FineTunedWeight that `mutate_pod` needs for this pod, "" when none."""
    annotations: dict[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    return annotations.get(keys.INJECT_FINE_TUNED_ADAPTER, "")


def mutate_pod(pod: Json, config: OperatorConfig, weight: Json | None = None) -> Verdict:
    """What the pod's annotations ask for, as a patch. `weight`: the FineTunedWeight of `named_weight`, if it exists."""
    if keys.INFERENCE_SERVICE not in ((pod.get("metadata") or {}).get("labels") or {}):
        return ALLOWED
    draft = PodDraft(pod)
    try:
        inject_model_init(draft, config.model_init)
        inject_adapter(draft, config.fine_tuned_adapter, weight)
        inject_serving_sidecar(draft, config.serving_sidecar)
        inject_rdma(draft)
        apply_profiles(draft)
        set_metrics(draft, config.metrics_aggregator)
    except PodDenied as error:
        return deny(str(error))
    return allow(patch=draft.patch())
