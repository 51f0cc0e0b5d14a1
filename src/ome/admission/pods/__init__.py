"""The pod webhook: what annotations on a serving pod ask OME to add (`spec/labels-and-annotations.md`, "On pods").

Only pods labelled `ome.io/inferenceservice` are touched. A step that cannot be done denies the pod.
"""

from ome.admission.pods.mutator import mutate_pod

__all__ = ["mutate_pod"]
