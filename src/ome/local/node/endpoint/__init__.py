"""What a control plane asks of its nodes over HTTPS: logs, exec, attach and port-forward of their pods.

A real API server dials this for `kubectl logs` and the like; the embedded one asks the same `PodStreams` in its own
process. Started by `ome local nodes`.
"""
