"""
A node is put together from its configuration.
"""

from __future__ import annotations

import pytest
import structlog.testing

from holdfast.config.node import NodeConfig
from holdfast.server.node import Node
from holdfast.server.status import node_status
from holdfast.sessions.registration import Arrival
from holdfast.sessions.stomp import StompSession
from tests.unit.server.whole_node import config


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


def test_every_part_has_the_settings_of_its_section(tmp_path) -> None:
    """
    A setting that reached nobody would be checked, shown, and of no use.
    """
    file = tmp_path / "node.toml"
    file.write_text(
        "memory = '20MiB'\nsegment = '64KiB'\n"
        "[broker]\nprefetch_max = 7_000\n"
        "[stomp]\nheader_count_max = 77\n"
        "[server]\ndrain_seconds = 1.5\n"
        "[journal]\nspare_segments = 3\n"
        "[replication]\nretry_seconds_min = 0.05\n"
        "[links]\nping_seconds = 1.25\n"
    )
    flags = {"data": tmp_path / "data"}
    parts = Node(NodeConfig.load(flags=flags, environment={}, file=file)).parts
    parts.journal.close()
    assert parts.broker.settings.memory_bytes == 20 * 1024 * 1024
    assert parts.broker.settings.prefetch_max == 7_000
    arrival = Arrival(parts.broker, parts.context, parts.store.read, 0.0)
    (stomp,) = parts.conductor.clients.protocols
    session = stomp.accept(arrival)
    assert isinstance(session, StompSession)
    assert session.protocol._settings.header_count_max == 77
    assert parts.conductor.settings.drain_seconds == 1.5
    assert parts.journal.settings.spare_segments == 3
    assert parts.journal.settings.segment_bytes == 64 * 1024
    assert parts.driver._state.settings.retry_seconds_min == 0.05
    assert parts.links.settings.ping_seconds == 1.25


def test_a_directory_that_does_not_last_is_in_the_status(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    As one in a container whose volume was forgotten; it is refused to nobody.
    """
    told = ("/data does not last",)
    monkeypatch.setattr("holdfast.server.assembly.fleeting_places", lambda _directories: told)
    node = Node(config(tmp_path))
    node.parts.journal.close()
    assert node_status(node.parts).store.warnings == told
