"""The controllers a Kubernetes cluster has for its own workloads: ordinary clients of the API, with no private door.

Each module observes from the caches, decides in a pure function and acts through `ome.local.plan`. Started by
`ome.local.cluster.LocalWorkloads`, on the embedded cluster only: a real control plane has its own.
"""
