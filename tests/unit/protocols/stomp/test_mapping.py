"""Which headers of SEND reach consumers, and how they are written."""

from __future__ import annotations

import pytest

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.mapping import (
    HIDDEN_HEADERS,
    USER,
    header_block,
    lookup,
    read_lines,
    visible_lines,
    with_user,
)
from holdfast.protocols.stomp.states import Version


def test_a_block_has_all_headers_and_only_the_visible_lines() -> None:
    """
    The session sees every header; consumers see the application's, verbatim and in order.
    """
    head = (
        b"SEND\ndestination:/queue/a\npersistent:true\ntransaction:t1\nproducer-id:p\n"
        b"content-length:5\ncolour:blue\n"
    )

    block = header_block(head, "1.2", body_bytes_max=100)

    assert block.headers == {
        "destination": "/queue/a",
        "persistent": "true",
        "transaction": "t1",
        "producer-id": "p",
        "content-length": "5",
        "colour": "blue",
    }
    assert block.lines == b"persistent:true\ncontent-length:5\ncolour:blue\n"
    assert block.body_bytes == 5


@pytest.mark.parametrize("name", sorted(HIDDEN_HEADERS))
def test_what_the_server_says_itself_cannot_be_forged(name: str) -> None:
    """
    Headers of the hop, and those the server writes into MESSAGE, are not passed on.
    """
    assert visible_lines({name: "x", "colour": "blue"}) == b"colour:blue\n"


def test_repetitions_of_what_was_cut_out_are_dropped() -> None:
    """
    Only the first receipt and sequence count, and those were taken before.
    """
    head = b"SEND\ndestination:/queue/a\nreceipt:2\nproducer-sequence:3\n"

    assert header_block(head, "1.2", body_bytes_max=1).headers == {"destination": "/queue/a"}


@pytest.mark.parametrize(
    ("version", "line", "expected"),
    [
        ("1.2", b"a:b\\cc\\\\d\\ne\\rf\n", b"a:b\\cc\\\\d\\ne\\rf\n"),
        ("1.2", b"a:b:c\n", b"a:b\\cc\n"),
        ("1.1", b"a:b\\cc\r\n", b"a:b\\cc\\r\n"),
        ("1.0", b"a:b\\cc:d\n", b"a:b\\\\cc\\cd\n"),
        ("1.0", b"a:  b \n", b"a:b\n"),
        ("1.2", b"a:  b \n", b"a:  b \n"),
        ("1.2", "é:ü\n".encode(), "é:ü\n".encode()),
    ],
)
def test_lines_are_kept_with_the_escapes_of_1_2(
    version: Version, line: bytes, expected: bytes
) -> None:
    """
    Whatever version the producer speaks, and even if it forgot to escape a colon.
    """
    head = b"SEND\ndestination:/queue/a\n" + line

    assert expected == header_block(head, version, body_bytes_max=1).lines


def test_a_body_over_the_limit_is_refused_by_its_header() -> None:
    """
    Not an octet of it is kept.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        header_block(b"SEND\ndestination:/q\ncontent-length:11\n", "1.2", body_bytes_max=10)

    assert caught.value.code == "body-too-large"


HEADERS = {"a": "1", "colour": "r\ned", "b": "", "x:y\\z": "a:b\\c", "größe": "ü", "aa": "b:1"}


@pytest.mark.parametrize("name", [*HEADERS, "c", "olour", "", "1", "\n", "a:1\ncolour"])
def test_a_header_is_found_among_the_lines(name: str) -> None:
    """
    The whole name, as it was before it was escaped, wherever it stands; a value holds no name.
    """
    assert HEADERS.get(name) == lookup(visible_lines(HEADERS), name)


@pytest.mark.parametrize("headers", [{}, HEADERS])
def test_lines_are_read_as_they_were_written(headers: dict[str, str]) -> None:
    """
    Decoded, whatever had to be escaped.
    """
    assert headers == read_lines(visible_lines(headers))


def test_nothing_is_found_where_there_are_no_lines() -> None:
    """
    A message may have no headers of its own.
    """
    assert lookup(b"", "a") is None


def test_who_has_sent_a_message_is_said_with_it() -> None:
    """What may be copied as it is stays so; a name is escaped as any value is."""
    plain = visible_lines({"a": "1"}, is_plain=True)
    said = with_user(plain, "ann")
    assert said == b"a:1\nJMSXUserID:ann\n"
    assert type(said) is type(plain)
    other = with_user(b"", "a\\b")
    assert (other, type(other)) == (b"JMSXUserID:a\\\\b\n", bytes)
    assert lookup(other, USER) == "a\\b"
