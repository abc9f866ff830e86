"""Tests of replication/message_codec.py: every message comes back, and nonsense is named."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RemoteProtocolError
from holdfast.journal.entry import FIRST_CHAIN, Entry, seal_entry
from holdfast.replication.message_codec import (
    FRAME_HEADER,
    decode_hello,
    decode_message,
    encode_hello,
    encode_message,
)
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    HeldEnd,
    Hello,
    ListedMember,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    RepairRequest,
    RepairResponse,
    ResetRequest,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)


def entries(count: int, size: int = 5) -> list[Entry]:
    made: list[Entry] = []
    chain = FIRST_CHAIN
    for index in range(1, count + 1):
        made.append(
            seal_entry(
                index=index,
                term=1,
                kind=0,
                timestamp=index,
                first_record=index,
                record_count=1,
                parts=[bytes([index]) * size],
                previous_chain=chain,
            )
        )
        chain = made[-1].chain
    return made


CHAIN = bytes(range(16))
MESSAGES: list[Message] = [
    PreVoteRequest(3, 10, 2),
    PreVoteResponse(3, granted=True),
    VoteRequest(3, 10, 2, is_transfer=True),
    VoteRequest(3, 10, 2),
    VoteResponse(3, granted=False),
    AppendRequest(3, 0, 0, FIRST_CHAIN, 7, 5, 12.5, entries(3)),
    AppendRequest(3, 9, 2, CHAIN, 7, 5, 12.5),
    AppendResponse(3, 9, CHAIN, 12.5),
    AppendResponse(3, 0, CHAIN, 12.5, rejected=True, hint_index=4, hint_term=2),
    ResetRequest(3, 100, 2, CHAIN, 5_000, 1.5),
    TransferRequest(3),
    RepairRequest(17),
    RepairResponse(1, entries(1)[0]),
    RepairResponse(17, None),
    Hello("a", "0f" * 16, "aa" * 16, 2, "h:1", "i", {"stomp": "h:2"}),
    Hello("a", "0f" * 16, shared={"copies": 2, "election_seconds_min": 1.5}),
    Hello("a", "0f" * 16, edition=5, seen={"aa" * 16: 1 << 40}),
    Hello("a", "0f" * 16, listed=(ListedMember("a", "h:1", "voter", "east"),), site="east"),
    Hello("a", "0f" * 16, generation=2, lineage=(5, 6), begun=True),
    Hello("a", "0f" * 16, end=HeldEnd(7, 3, "cc" * 16, 5, "", is_incomplete=True)),
    Editions({}),
    Editions({"0f" * 16: 7, "aa" * 16: 1 << 40}),
]


def decode(data: bytes, before: bytes = b"", after: bytes = b"") -> Message:
    length, kind = FRAME_HEADER.unpack_from(data)
    assert len(data) == 4 + length
    start = len(before) + FRAME_HEADER.size
    return decode_message(kind, before + data + after, start, len(before) + len(data))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back(message: Message) -> None:
    """What was encoded is decoded, alone and in the middle of other bytes."""
    data = b"".join(encode_message(message))

    assert message == decode(data)
    assert message == decode(data, before=b"xyz", after=b"more")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_cut_message_is_refused(message: Message) -> None:
    """Every prefix of a payload gives the named error or, where the cut is harmless, a message."""
    data = b"".join(encode_message(message))
    _, kind = FRAME_HEADER.unpack_from(data)
    for end in range(FRAME_HEADER.size, len(data)):
        with pytest.raises(RemoteProtocolError):
            # A repair without its entry is a whole message: it says there is no copy.
            found = decode_message(kind, data[:end], FRAME_HEADER.size, end)
            if found == RepairResponse(1, None):
                raise RemoteProtocolError("allowed")


@given(st.integers(0, 255), st.binary(max_size=200))
def test_any_bytes_give_a_message_or_the_named_error(kind: int, payload: bytes) -> None:
    """Nothing that a peer sends raises anything else."""
    try:
        decode_message(kind, payload, 0, len(payload))
    except RemoteProtocolError:
        pass


def test_a_damaged_entry_is_refused() -> None:
    """A flipped bit in an entry is found by its checksum, before anything is stored."""
    data = bytearray(b"".join(encode_message(MESSAGES[5])))
    data[-3] ^= 1

    with pytest.raises(RemoteProtocolError):
        decode(bytes(data))


def test_entries_must_follow_each_other() -> None:
    """An append request whose entries do not start after its previous index is refused."""
    wrong = AppendRequest(3, 5, 1, CHAIN, 0, 0, 0.0, entries(1))

    with pytest.raises(RemoteProtocolError):
        decode(b"".join(encode_message(wrong)))


def test_a_request_is_encoded_once() -> None:
    """Two peers get the very same bytes; an entry's bytes are not copied to encode it."""
    message = AppendRequest(3, 0, 0, FIRST_CHAIN, 0, 0, 0.0, entries(2))

    parts = encode_message(message)

    assert parts is encode_message(message)
    assert parts[1] is message.entries[0].raw


def test_a_hello_of_a_newer_version_is_understood() -> None:
    """Unknown fields are ignored; a node identity that is no hexadecimal is refused."""
    text = b'{"name":"a","node_id":"0f","color":"red"}'

    assert Hello("a", "0f") == decode_message(11, text, 0, len(text))
    with pytest.raises(RemoteProtocolError):
        decode_message(11, b'{"name":"a","node_id":"xyz"}', 0, 28)


def test_a_hello_says_its_lineage_if_there_is_one() -> None:
    """Who began its generation, and when; nothing in the first one."""
    hello = Hello("a", "aa" * 16, lineage=(7, 1999))

    assert hello == decode_hello(encode_hello(hello))
    assert b"lineage" not in encode_hello(Hello("a", "aa" * 16))
    for other in (b"[1]", b"[1,2,3]", b'"x"', b"5", b'[1,"y"]', b"[1e999,2]"):
        with pytest.raises(RemoteProtocolError):
            decode_hello(b'{"name":"a","node_id":"00","lineage":' + other + b"}")


@pytest.mark.parametrize(
    "number", [b"-2", b"9223372036854775808", b"1e30", b"1.5", b"true", b'"1"', b'"1_0"', b"null"]
)
def test_a_hello_with_a_number_out_of_bounds_is_refused(number: bytes) -> None:
    """No ballot and no message has room for it: whoever believed it would end at the next one."""
    fields = [b'"%s":%s' % (it, number) for it in (b"generation", b"edition", b"config_index")]
    fields.append(b'"seen":{"%s":%s}' % (b"aa" * 16, number))
    for field in fields:
        with pytest.raises(RemoteProtocolError):
            decode_hello(b'{"name":"a","node_id":"00",' + field + b"}")


def test_a_hello_with_an_infinite_number_is_refused() -> None:
    """JSON here knows such, and no whole number is one."""
    with pytest.raises(RemoteProtocolError, match="makes no sense"):
        decode_hello(b'{"name":"a","node_id":"00","generation":1e999}')


def numbers_of(message: Message) -> list[str]:
    values = {name: getattr(message, name) for name in type(message).__slots__}
    return [name for name, value in values.items() if type(value) is int]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_number_that_no_ballot_has_room_for_is_refused(message: Message) -> None:
    """
    A term of that size ended whoever held the next election, again after each restart.

    And an edition of that size was told on by all, in hellos that none of them took any more.
    """
    if isinstance(message, Hello):
        return  # As JSON, below.
    changed = [replace(message, **{name: 1 << 63}) for name in numbers_of(message)]
    if isinstance(message, Editions):
        changed = [Editions({"0f" * 16: 1, "aa" * 16: 1 << 63})]
    assert changed
    for large in changed:
        if isinstance(large, AppendRequest):
            large.encoded = None
        with pytest.raises(RemoteProtocolError, match=r"bounds|instead of|something else"):
            decode(b"".join(encode_message(large)))


def test_the_largest_number_of_a_message_is_taken() -> None:
    """The bound is what a hello and a ballot have."""
    for message in (Editions({"0f" * 16: (1 << 63) - 1}), TransferRequest((1 << 63) - 1)):
        assert message == decode(b"".join(encode_message(message)))


def test_the_frame_header_is_five_bytes() -> None:
    """Length and type, little endian: the layout is part of the wire format."""
    assert struct.pack("<IB", 9, 8) == b"".join(encode_message(TransferRequest(1)))[:5]
