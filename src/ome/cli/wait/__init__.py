"""`kubectl ome wait`: predicates over what a service reports, and the loop that looks until one holds
(spec/cli-runtime-and-wait.md 3).
"""
