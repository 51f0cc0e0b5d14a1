"""Pods as real processes: images under `local/` run their command as a child process of this machine.

Where the kernel allows it every pod has a network of its own, and every container a file system view and process ids of
its own (`supervisor`, ordered by `isolated`); elsewhere they run plain (`plain`). Isolated pods reach each other and
Services by address and name, and the machine reaches them through a relay. `runtime` is the face towards the kubelet.
"""
