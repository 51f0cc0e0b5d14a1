"""Logs, exec and port-forward: what the server checks before it hands over to whoever runs the pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ome.local.apiserver.http import ExecOptions, LogOptions, Upgrade, WebSocket
from tests.component.apiserver.api import PODS, Api, pod, with_api

pytestmark = pytest.mark.embedded_only("what is tested is the embedded server itself")
TWO = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}


class Kubelet:
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        self.asked.append(options)
        yield f"{pod['metadata']['name']}/{options.container}\n".encode()
        if options.follow:
            yield b"more\n"

    def exec(self, pod: dict[str, Any], options: ExecOptions) -> Upgrade:
        self.asked.append(options)
        return Upgrade(("v5.channel.k8s.io",), _say_nothing)

    def port_forward(self, pod: dict[str, Any], ports: Sequence[int]) -> Upgrade:
        self.asked.append(list(ports))
        return Upgrade(("SPDY/3.1+portforward.k8s.io",), _say_nothing)


async def _say_nothing(socket: WebSocket) -> None:
    return None


KUBELET = Kubelet()


@with_api(logs=KUBELET, execs=KUBELET)
async def test_logs_come_from_whoever_runs_the_pod(api: Api) -> None:
    await api.post(PODS, pod("p", spec={"nodeName": "n"}))
    assert (await api.get(f"{PODS}/p/log")).body == "p/c\n"
    assert (await api.get(f"{PODS}/p/log?follow=true&tailLines=5&timestamps=true&previous=true")).body == "p/c\nmore\n"
    assert KUBELET.asked[-1] == LogOptions("c", follow=True, previous=True, timestamps=True, tail_lines=5)


@with_api(logs=KUBELET)
async def test_a_pod_on_no_node_has_no_log_yet(api: Api) -> None:
    await api.post(PODS, pod("p"))
    assert (await api.get(f"{PODS}/p/log")).status == 204


@with_api(logs=KUBELET)
async def test_which_container_must_be_said_when_there_are_two(api: Api) -> None:
    await api.post(PODS, pod("p", spec={"nodeName": "n", **TWO}))
    unclear = await api.get(f"{PODS}/p/log")
    assert (unclear.status, unclear["message"]) == (
        400,
        "a container name must be specified for pod p, choose one of: [a b]",
    )
    assert (await api.get(f"{PODS}/p/log?container=b")).body == "p/b\n"
    assert (await api.get(f"{PODS}/p/log?container=z"))["message"] == "container z is not valid for pod p"
    assert (await api.get(f"{PODS}/p/log?container=a&tailLines=-1")).status == 422
    assert (await api.get(f"{PODS}/absent/log")).status == 404


@with_api(execs=KUBELET)
async def test_exec_and_port_forward_become_upgrades(api: Api) -> None:
    await api.post(PODS, pod("p", spec={"nodeName": "n"}))
    answer = await api.respond("GET", f"{PODS}/p/exec?command=ls&command=-l&stdout=true&tty=true")
    assert answer.status == 101
    assert answer.upgrade is not None
    assert answer.upgrade.protocols == ("v5.channel.k8s.io",)
    assert KUBELET.asked[-1] == ExecOptions("c", ("ls", "-l"), stdout=True, tty=True)
    attached = await api.respond("POST", f"{PODS}/p/attach?stdin=true")
    assert attached.status == 101
    assert KUBELET.asked[-1] == ExecOptions("c", stdin=True, attach=True)
    await api.respond("GET", f"{PODS}/p/portforward?ports=80,8080")
    assert KUBELET.asked[-1] == [80, 8080]


@with_api()
async def test_a_server_without_nodes_says_so(api: Api) -> None:
    await api.post(PODS, pod("p", spec={"nodeName": "n"}))
    assert (await api.get(f"{PODS}/p/exec?command=ls")).status == 500
    assert (await api.get(f"{PODS}/p/log"))["message"].startswith("Internal error occurred: no logs are kept")


@with_api(logs=KUBELET, execs=KUBELET)
async def test_what_is_not_served_says_what_is(api: Api) -> None:
    await api.post(PODS, pod("p", spec={"nodeName": "n"}))
    answer = await api.get(f"{PODS}/p/proxy/index.html")
    assert (answer.status, answer["reason"]) == (503, "ServiceUnavailable")
    assert "kubectl port-forward" in answer["message"]
