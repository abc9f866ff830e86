"""The lines of those who come by TLS to a port for members or operators."""

from __future__ import annotations

import pytest

from holdfast.server.descriptors import APART_COUNT_MAX
from holdfast.server.port_lines import SLICE_SHARE, port_lines
from holdfast.transport.handshakes import AT_ONCE_SECONDS
from holdfast.transport.settings import PortSettings


def test_nobody_waits_at_the_door_of_either_line() -> None:
    """And each has a part of the turn that clients' handshakes have, whatever else is set."""
    ports = PortSettings(handshake_slice_seconds=0.003, handshake_seconds_max=7.0)
    lines = port_lines(ports, common_count_max=40)
    assert [it.count_max for it in lines] == [40, APART_COUNT_MAX]
    for line in lines:
        assert line._patience == AT_ONCE_SECONDS
        assert line.settings.handshake_slice_seconds == pytest.approx(0.003 / SLICE_SHARE)
        assert line.settings.handshake_seconds_max == 7.0
