"""
What pages of durable subscriptions go by.
"""

from __future__ import annotations

from holdfast.admin.subscription_status import key_of, key_text


def test_a_key_is_one_text_and_back() -> None:
    """
    Whatever is in client-id and name: no two have the same.
    """
    keys = [("a", "b:c"), ("a:b", "c"), ("", 'x"y'), ("größe", "")]
    assert [key_of(key_text(*key)) for key in keys] == keys
    assert len({key_text(*key) for key in keys}) == len(keys)
