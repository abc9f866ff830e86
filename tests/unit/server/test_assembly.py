"""
A node is put together from its configuration.
"""

from __future__ import annotations

import pytest
import structlog.testing
from tests.unit.server.whole_node import config

from holdfast.server.node import Node


def test_few_open_files_are_told_with_what_to_do(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One line: how many clients fit, and which limit is too low.
    """
    monkeypatch.setattr("holdfast.server.assembly.raise_limit", lambda: 256)
    with structlog.testing.capture_logs() as lines:
        node = Node(config(tmp_path))
    node.parts.journal.close()
    assert node.conductor.settings.connection_count_max == node.parts.shares.clients < 100
    told = [line for line in lines if "too few files may be open" in line["event"]]
    assert [line["clients"] for line in told] == [node.parts.shares.clients]
    assert "LimitNOFILE" in told[0]["remedy"]
