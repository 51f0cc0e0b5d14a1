"""The nodes of a cluster without machines: a scheduler, node objects that stay alive, and a kubelet that plays
containers.

Everything goes through the public API, so it works on a real Kubernetes control plane too. Started by
`ome.local.cluster`.
"""
