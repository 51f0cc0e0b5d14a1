"""What the data directory says while a cluster starts in it."""

from __future__ import annotations

import json
from pathlib import Path

from ome.local.commands.data import DataDir, held


def test_the_number_of_a_killed_process_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.state.write_text(json.dumps({"pid": 1, "server": "https://127.0.0.1:1"}))
    with held(data):
        assert data.is_held()
        assert data.read_state() == {}
