"""What tables show: durations, pods, JSONPath."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ome.local.apiserver.printing import kinds, pods
from ome.local.apiserver.printing.custom import PathError, compile_path
from ome.local.apiserver.printing.layouts import selector_text, short_duration

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
        (11700, "3h15m"), (172799, "47h"), (172800, "2d"), (176400, "2d1h"), (691200, "8d"), (86400 * 800, "2y70d"),
        (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


def _pod(status: dict[str, Any], containers: int = 1, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": f"c{n}"} for n in range(containers)], **more.pop("spec", {})}
    return {"metadata": {"name": "p", **more.pop("metadata", {})}, "spec": spec, "status": status}


def _running(ready: bool = True, restarts: int = 0, **last: Any) -> dict[str, Any]:
    return {
        "name": "c0",
        "ready": ready,
        "restartCount": restarts,
        "state": {"running": {}},
        **({"lastState": last} if last else {}),
    }


@pytest.mark.parametrize(
    ("sentence", "pod", "cells"),
    [
        ("a pod that waits", _pod({"phase": "Pending"}), ("0/1", "Pending", "0")),
        ("a running pod", _pod({"phase": "Running", "containerStatuses": [_running()]}), ("1/1", "Running", "0")),
        (
            "an image that is not there",
            _pod({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
            ("0/1", "ImagePullBackOff", "0"),
        ),
        (
            "a container that crashed five minutes ago",
            _pod(
                {
                    "phase": "Running",
                    "containerStatuses": [
                        _running(restarts=3, terminated={"finishedAt": "2026-01-01T11:55:00Z", "exitCode": 1})
                    ],
                }
            ),
            ("1/1", "Running", "3 (5m ago)"),
        ),
        (
            "a container that ended with a code and no reason",
            _pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 7}}}]}),
            ("0/1", "ExitCode:7", "0"),
        ),
        (
            "the second of two init containers",
            _pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}],
                },
                spec={"initContainers": [{"name": "a"}, {"name": "b"}]},
            ),
            ("0/1", "Init:1/2", "0"),
        ),
        (
            "a pod that goes",
            _pod(
                {"phase": "Running", "containerStatuses": [_running()]},
                metadata={"deletionTimestamp": "2026-01-01T12:00:30Z"},
            ),
            ("1/1", "Terminating", "0"),
        ),
    ],
)
def test_the_row_of_a_pod(sentence: str, pod: dict[str, Any], cells: tuple[str, ...]) -> None:
    row, _ = pods.LAYOUT.cells(pod, NOW)
    assert tuple(row[1:4]) == cells


def test_a_finished_pod_marks_its_row() -> None:
    _, conditions = pods.LAYOUT.cells(_pod({"phase": "Succeeded"}), NOW)
    assert conditions[0]["reason"] == "Succeeded"


def test_every_layout_has_a_description_for_each_column() -> None:
    for storage in kinds._LAYOUTS:
        layout = kinds.layout(storage)
        assert all(column["description"] for column in layout.definitions), storage
        assert len(layout.cells({"metadata": {"name": "x"}}, NOW)[0]) == len(layout.definitions)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.a", [1]),
        ("{.spec.list[0].n}", ["x"]),
        (".spec.list[*].n", ["x", "y"]),
        ('.spec.list[?(@.n=="y")].v', [2]),
        (".spec.list[-1].v", [2]),
        (".metadata.annotations['a/b.c']", ["z"]),
        (r".metadata.annotations.a/b\.c", ["z"]),
        ("..v", [1, 2]),
        (".spec.missing.deep", []),
    ],
)
def test_paths_of_printer_columns(path: str, found: list[Any]) -> None:
    obj = {
        "metadata": {"annotations": {"a/b.c": "z"}},
        "spec": {"a": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    }
    assert compile_path(path)(obj) == found


def test_a_path_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(PathError):
        compile_path(".spec[")


def test_selectors_are_written_as_people_write_them() -> None:
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "t", "operator": "In", "values": ["y", "x"]},
            {"key": "u", "operator": "DoesNotExist"},
        ],
    }
    assert selector_text(selector) == "a=1,b=2,t in (x,y),!u"
