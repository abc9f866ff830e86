"""
A message that lives in memory only.
"""

from __future__ import annotations

from holdfast.broker.serving.message import TransientMessage


def test_a_message_counts_for_its_headers_and_its_body() -> None:
    """
    Nothing was noted beside them: whoever asks for facts finds none.
    """
    message = TransientMessage(-3, b"a:b\n", b"body", 2, 17)
    assert message.size == 8
    assert message.facts is None
    assert (message.key, message.order, message.stored_at) == (-3, 2, 17)
