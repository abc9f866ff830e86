"""
The headers of a rejected message's copy.
"""

from __future__ import annotations

from holdfast.broker.serving.dead_letters import dead_letter_headers


def test_a_copy_says_where_it_was_rejected() -> None:
    """
    Behind its own headers, escaped as they are stored.
    """
    assert dead_letter_headers(b"a:1\n", "o:rders") == (
        b"a:1\noriginal-destination:/queue/o\\crders\ndlqDeliveryFailureCause:rejected\n"
    )
