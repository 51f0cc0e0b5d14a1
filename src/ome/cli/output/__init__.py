"""How kubectl-ome speaks: text made safe, tables, and whole reports as JSON or YAML. Pure; knows nothing of OME's
kinds.
"""
