"""A Kubernetes-compatible API server in one process, used as a library: `ome.local.apiserver.server.ApiServer`.

It knows no socket and none of OME's controllers. `serve.py` puts HTTP before it, `ome.local.inprocess` calls it.
"""
