"""
The lines of those who come by TLS to a port for members or operators.

There are two: one for whoever comes, and one apart for those from where members are, or from this
machine, so that nobody else fills it. At neither of them anybody waits at the door, as a crowd of
clients does: who finds no room is closed on and comes again, and nobody who leaves us waiting is
spared for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from holdfast.server.descriptors import APART_COUNT_MAX
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings

SLICE_SHARE: Final = 3
"""Of a turn each of these ports has this part of what handshakes of clients have."""


class PortLines(NamedTuple):
    """The lines of one port."""

    common: Handshakes
    apart: Handshakes


def port_lines(ports: PortSettings, *, common_count_max: int) -> PortLines:
    """Make the lines of a port, with nobody in them."""
    seconds = ports.handshake_slice_seconds / SLICE_SHARE
    settings = replace(ports, handshake_slice_seconds=seconds)
    common, apart = (
        Handshakes(settings, count_max=count_max, has_door=False)
        for count_max in (common_count_max, APART_COUNT_MAX)
    )
    return PortLines(common, apart)
