"""A null counts as absent, as in Go; everything else that is wrong stays wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ome.api.core import ControllerRevision, EndpointSlice, Pod
from ome.kube.decoding import decode
from ome.kube.sync import decode as decode_of_plugin


def read(type_: type[Any], document: dict[str, Any]) -> Any:
    return decode(msgspec.json.Decoder(type_), msgspec.json.encode(document))


def test_a_slice_without_endpoints_as_a_real_api_server_writes_it() -> None:
    found = read(EndpointSlice, {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": None, "ports": None})
    assert (found.metadata.name, found.endpoints, found.ports) == ("a", (), ())


def test_nulls_inside_lists_and_several_of_them() -> None:
    status = {"conditions": None, "containerStatuses": [{"name": "a", "state": None}, {"name": "b"}]}
    found = read(Pod, {"metadata": {"name": "a", "labels": None, "finalizers": None}, "status": status})
    assert found.status.conditions == ()
    assert [container.name for container in found.status.container_statuses] == ["a", "b"]


def test_opaque_parts_keep_their_nulls() -> None:
    document = {"metadata": {"name": "a", "labels": None}, "data": {"containers": None}, "revision": 1}
    assert bytes(read(ControllerRevision, document).data) == b'{"containers":null}'


def test_what_is_wrong_otherwise_is_told() -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `array`, got `int`"):
        read(EndpointSlice, {"metadata": {"labels": None}, "endpoints": 5})


def test_the_plugin_reads_a_null_as_the_manager_does() -> None:
    raw = b'{"metadata":{"name":"a","labels":null},"endpoints":null,"ports":null}'
    assert decode_of_plugin(raw, EndpointSlice) == decode(msgspec.json.Decoder(EndpointSlice), raw)
