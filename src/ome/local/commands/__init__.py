"""`ome local`: the commands of the embedded cluster. Thin: what they start is in `ome.local.cluster` and beside it.

Exit codes: 0 done, 1 refused or failed (one line on stderr says why), 2 wrong usage.
"""
