"""kubectl-ome: the plugin behind `kubectl ome`.

It reads with the caller's own identity, decides in pure functions, and writes only through the guarded-action
protocol. It never imports the asynchronous half of the product. `ome.cli.main:main` is the entry point.
"""
