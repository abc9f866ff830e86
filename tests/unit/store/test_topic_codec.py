"""
Records of topics that make no sense; those that do are in `test_record_codec`, byte by byte.
"""

from __future__ import annotations

import struct

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER
from holdfast.model.owners import NOBODY, Owner
from holdfast.model.topic_records import SubscriptionRecord
from holdfast.store.record_codec import COUNTED, DETACHED, SUBSCRIPTION, TOPIC, decode_records
from holdfast.store.topic_codec import decode_subscription, encode_subscription

WHOLE = encode_subscription(SubscriptionRecord(1, 2, 3, "client", "name"))
OWNED = encode_subscription(SubscriptionRecord(1, 2, 3, "c", "n", owner=Owner("ann", 5)))


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (TOPIC, b"\0" * 15, "topic record .* unpack_from requires"),
        (TOPIC, b"\0" * 16 + b"\xff", "topic record .* can't decode"),
        (SUBSCRIPTION, WHOLE[:20], "subscription record .* unpack_from requires"),
        (SUBSCRIPTION, WHOLE[:-1], "subscription record .* names are cut off"),
        (SUBSCRIPTION, WHOLE[:10] + b"\x82" + WHOLE[11:], "flags 0x82, which are not known"),
        (SUBSCRIPTION, OWNED[:-1], "name of whose it is is cut off"),
        (SUBSCRIPTION, OWNED[:-4], "subscription record .* unpack_from requires"),
        (SUBSCRIPTION, OWNED[:-5] + b"\0\0", "name of whose it is is cut off"),
        (SUBSCRIPTION, OWNED[:-1] + b"\xff", "subscription record .* can't decode"),
        (DETACHED, b"\0" * 13, "detached record .* unpack requires"),
        (COUNTED, b"\0" * 17, "counted record .* unpack_from requires"),
        (COUNTED, b"\0" * 18 + b"\0" * 12, "a run of 0 from 0 is none"),
        (COUNTED, b"\0" * 18 + struct.pack("<QI", 1, 65_537), "or too long"),
    ],
)
def test_what_makes_no_sense_is_told(kind, payload, why) -> None:
    """
    Which record, and why; never another exception.
    """
    body = RECORD_HEADER.pack(kind, 0, 0, len(payload)) + payload
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(body))


def test_names_are_told_apart_by_their_lengths() -> None:
    """
    A client-id may end as a name begins.
    """
    for client_id, name in (("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")):
        found = decode_subscription(
            encode_subscription(SubscriptionRecord(1, 2, 3, client_id, name))
        )
        assert (found.client_id, found.name, found.selector) == (client_id, name, "")


def test_whose_it_is_stands_between_name_and_selector() -> None:
    """
    Only where it is somebody's: what is nobody's is written as before there were owners.
    """
    for owner in (NOBODY, Owner("ann", 1 << 63), Owner("b", 0)):
        for selector in ("", "a = 1"):
            record = SubscriptionRecord(1, 2, 3, "c", "n", selector=selector, owner=owner)
            found = decode_subscription(encode_subscription(record))
            assert (found.owner, found.selector, found.name) == (owner, selector, "n")
    assert len(encode_subscription(SubscriptionRecord(1, 2, 3, "c", "n"))) == len(OWNED) - 13
