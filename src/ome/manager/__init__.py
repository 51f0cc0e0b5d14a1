"""The manager's process: flags, logging, configuration, metrics, probes, leader election, wiring.

The only room that knows all controllers. Nothing imports it but `ome.__main__`.
"""
