"""The plumbing between OME and a Kubernetes API server. Knows nothing of OME beyond the generic parts of `ome.api`.

Sans-I/O at the core (`resources`, `requests`, `errors`, `config`), two transports around it (`aiohttp_transport` for
the manager and the embedded cluster, `sync` for the plugin), and the controller machinery on top (`client`, `cache`,
`queue`, `controller`, `events`, `expectations`, `lease`).
"""
