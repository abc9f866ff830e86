"""One large entry is taken as it arrives, and is what decoding the whole frame would give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RemoteProtocolError
from holdfast.journal import entry_body
from holdfast.journal.entry import FIRST_CHAIN, HEADER_BYTES, Entry, seal_entry
from holdfast.journal.entry_body import BodyDigest
from holdfast.replication.frame_buffer import FrameBuffer
from holdfast.replication.handshake import PING, frame
from holdfast.replication.large_append import LARGE_BYTES, PREFIX_BYTES, LargeAppend
from holdfast.replication.message_codec import (
    FRAME_BYTES_MAX,
    decode_message,
    encode_message,
)
from holdfast.replication.messages import AppendRequest, Message, RepairResponse

LENGTH = LARGE_BYTES + 4321


def entry(length: int, index: int = 8) -> Entry:
    return seal_entry(
        index=index,
        term=2,
        kind=0,
        timestamp=9,
        first_record=3,
        record_count=1,
        parts=[b"a" * (length - 4), b"tail"],
        previous_chain=FIRST_CHAIN,
    )


def request(*entries: Entry) -> AppendRequest:
    return AppendRequest(2, entries[0].index - 1, 1, bytes(16), 6, 5, 1.5, list(entries))


def encoded(*messages: Message) -> bytes:
    return b"".join(part for each in messages for part in encode_message(each))


def fed(data: bytes, step: int) -> tuple[list[Message], int]:
    """The messages that come out, and how many of them were taken as they came."""
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    found: list[Message] = []
    large = 0
    for begin in range(0, len(data), step):
        for kind, held, start, end in buffer.feed(data[begin : begin + step]):
            if isinstance(held, LargeAppend):
                large += 1
                found.append(held.message())
            elif kind != PING:
                found.append(decode_message(kind, held, start, end))
    assert buffer.held_bytes == 0
    return found, large


@given(st.integers(1, 2 * LENGTH), st.integers(0, 40), st.sampled_from([0, 1, 2, 3]))
def test_it_is_the_message_that_was_sent(step: int, before: int, odd: int) -> None:
    """
    However the bytes are cut, with other frames around it.
    """
    sent = request(entry(LENGTH + odd))
    small = request(entry(100))
    data = frame(PING) * before + encoded(small, sent) + frame(PING) + encoded(sent, small)
    found, large = fed(data, max(step, 1 + len(data) // 300))
    assert found == [small, sent, sent, small]
    if step < LENGTH // 2:
        assert large == 2


def test_it_is_hashed_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With each part that part, and with the last not all of it again: nobody waits for that.
    """
    hashed: list[int] = []
    add = BodyDigest.add

    def watched(self: BodyDigest, piece: bytes) -> None:
        hashed.append(len(piece))
        add(self, piece)

    monkeypatch.setattr(entry_body.BodyDigest, "add", watched)
    sent = request(entry(20 * LENGTH))
    found, large = fed(encoded(sent), 10_000)
    assert (found, large) == ([sent], 1)
    assert max(hashed) <= 10_000
    assert sum(hashed) == 20 * LENGTH


def test_what_is_not_one_large_entry_is_decoded_whole() -> None:
    """
    Several entries in one request, or a large repair.
    """
    first = entry(LENGTH, 8)
    several = request(first, entry(LENGTH, 9))
    repair = RepairResponse(8, first)
    found, large = fed(encoded(several, repair), 50_000)
    assert found == [several, repair]
    assert large == 0


@pytest.mark.parametrize("place", [PREFIX_BYTES - 5, PREFIX_BYTES + 1000, -1])
def test_damage_on_the_way_is_named(place: int) -> None:
    """
    In the header, the body or the padding.
    """
    data = bytearray(encoded(request(entry(LENGTH))))
    data[place] ^= 1
    with pytest.raises(RemoteProtocolError, match="makes no sense"):
        fed(bytes(data), 10_000)


def test_another_entry_than_was_said_is_refused() -> None:
    """
    It must follow the one that the request names.
    """
    sent = request(entry(LENGTH))
    sent.previous_index += 1
    with pytest.raises(RemoteProtocolError, match="entry 8 instead of 9"):
        fed(encoded(sent), 10_000)


def test_a_number_out_of_bounds_is_refused() -> None:
    """
    As by decoding it whole.
    """
    sent = request(entry(LENGTH))
    sent.commit_index = 1 << 63
    with pytest.raises(RemoteProtocolError, match="out of all bounds"):
        fed(encoded(sent), 10_000)


def test_a_length_that_is_not_the_frame_s_is_refused() -> None:
    """
    As by decoding it whole.
    """
    data = encoded(request(entry(LENGTH)))
    longer = (len(data) - 4 + 8).to_bytes(4, "little") + data[4:] + bytes(8)
    with pytest.raises(RemoteProtocolError):
        fed(longer, 10_000)


def test_what_is_held_is_told_part_by_part() -> None:
    """
    The link counts as moving meanwhile.
    """
    data = encoded(request(entry(LENGTH)))
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    seen = []
    for begin in range(0, len(data), 50_000):
        buffer.feed(data[begin : begin + 50_000])
        seen.append(buffer.held_bytes)
    assert seen[0] == 50_000
    assert seen[1] == 100_000
    assert seen[-1] == 0
    assert len(data) > HEADER_BYTES
