"""
What a policy's record says; that nonsense is refused is in `test_record_codec`.
"""

from __future__ import annotations

import pytest

from holdfast.model.records import PolicyRecord
from holdfast.store.policy_codec import decode_policy, encode_policy, is_json_object


@pytest.mark.parametrize(
    ("pattern", "values", "revision"),
    [("queue://\u00e9.>", '{"queuePrefetch":7}', 0), ("topic://a", "", 3), ("", "", 7)],
)
def test_it_comes_back_whole(pattern, values, revision) -> None:
    """
    Also one that says nothing any more, and one that tells only a revision.
    """
    found = decode_policy(encode_policy(PolicyRecord(pattern, values, revision)))
    assert (found.pattern, found.values, found.revision) == (pattern, values, revision)


@pytest.mark.parametrize(
    ("text", "expected"), [("{}", True), ("[]", False), ("{", False), ("[" * 100_000, False)]
)
def test_only_an_object_is_one(text, expected) -> None:
    """
    Nor does what is nested too deeply break anything.
    """
    assert is_json_object(text) == expected
