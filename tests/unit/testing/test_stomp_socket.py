"""The blocking client of the tests: what it reads is what was on the wire."""

from __future__ import annotations

from holdfast.testing.stomp_socket import ReceivedFrame


def test_a_frame_tells_whether_it_may_have_come_before():
    """Only `redelivered:true` says so."""
    assert ReceivedFrame("MESSAGE", {"redelivered": "true"}, b"").is_redelivered
    assert not ReceivedFrame("MESSAGE", {"redelivered": "false"}, b"").is_redelivered
    assert not ReceivedFrame("MESSAGE", {}, b"").is_redelivered
