"""
A protocol is served by its name, its beginning and who makes its sessions.
"""

from __future__ import annotations

from holdfast.protocols.detect import Answer, choose
from holdfast.sessions.registration import Arrival, Registration


def test_a_registration_is_what_is_chosen_by_first_bytes(desk) -> None:
    """
    Nothing else has to be known of a protocol, and its sessions get what an arrival brings.
    """
    arrivals: list[Arrival] = []
    first = Registration("A", lambda start: Answer.NO, arrivals.append)  # type: ignore[arg-type]
    second = first._replace(name="B", recognizes=lambda start: Answer.YES)
    arrival = Arrival(desk.broker, desk.context, desk.read_message, 1.0)
    chosen = choose(b"x", (first, second))
    assert chosen is second
    chosen.accept(arrival)
    assert arrivals == [arrival]
