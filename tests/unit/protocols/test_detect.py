"""
Which protocol a beginning is of; however it is cut, and whatever it is.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.detect import (
    FIRST_BYTES_MAX,
    UNKNOWN_PROTOCOL,
    Answer,
    Recognizes,
    by_words,
    choose,
)
from holdfast.protocols.stomp.states import CLIENT_COMMANDS


class Spoken(NamedTuple):
    name: str
    recognizes: Recognizes


def is_binary(start: bytes) -> Answer:
    """Known by its second byte."""
    if start[0] != 0x10:
        return Answer.NO
    return Answer.PERHAPS if len(start) < 2 else Answer.YES


STOMP = Spoken("STOMP", by_words(CLIENT_COMMANDS, b"\r\n"))
BINARY = Spoken("BINARY", is_binary)
ALL = (STOMP, BINARY)


@pytest.mark.parametrize("start", [b"CONNECT\n", b"STOMP\r\n", b"\n\r\nSEND\nx", b"SUB\ny"])
def test_a_text_protocol_is_known_by_its_first_word(start) -> None:
    """
    Line ends before it are heart-beats of a client that is early.
    """
    assert choose(start, ALL) is STOMP
    assert choose(b"\x10\x00", ALL) is BINARY


@pytest.mark.parametrize("start", [b"", b"\n", b"\r\n\n", b"C", b"\nSTOM", b"STOMP", b"\x10"])
def test_a_beginning_that_may_become_one_waits_for_more(start) -> None:
    """
    A byte at a time is enough for any of them.
    """
    assert choose(start, ALL) is None


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"CONNECTED\n", "b'CONNECTED"),
        (b"connect\n", "b'connect"),
        (b"\x00\x00\x00\xf8\x01ActiveMQ", "no protocol's"),
    ],
)
def test_what_nobody_knows_is_explained(start, what) -> None:
    """
    The operator reads what it probably is, and what is spoken.
    """
    with pytest.raises(RemoteProtocolError, match="spoken here: STOMP, BINARY") as caught:
        choose(start, ALL)
    assert what in str(caught.value)
    assert caught.value.code == UNKNOWN_PROTOCOL


@given(st.binary(max_size=2 * FIRST_BYTES_MAX), st.integers(0, 2 * FIRST_BYTES_MAX))
def test_the_answer_does_not_depend_on_how_bytes_are_cut(data, cut) -> None:
    """
    What a part of a beginning settles, the whole of it does not change.
    """

    def answer(start: bytes) -> object:
        try:
            return choose(start, ALL)
        except RemoteProtocolError:
            return "unknown"

    early, late = answer(data[:cut]), answer(data)
    assert early is None or cut >= len(data) or early == late


def test_whoever_is_never_sure_does_not_wait_for_ever() -> None:
    """
    More than so many bytes are nobody's beginning.
    """
    unsure = Spoken("UNSURE", lambda _: Answer.PERHAPS)
    assert choose(b"x" * (FIRST_BYTES_MAX - 1), [unsure]) is None
    with pytest.raises(RemoteProtocolError):
        choose(b"x" * FIRST_BYTES_MAX, [unsure])
