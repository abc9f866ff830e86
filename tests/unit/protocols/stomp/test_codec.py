"""Escapes, header lines, the scanner of heads, and encoding."""

from __future__ import annotations

import sys

import pytest

from holdfast.errors import LocalProtocolError, RemoteProtocolError
from holdfast.protocols.stomp import codec
from holdfast.protocols.stomp.codec import HeadScanner
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import Phase, Version


def scanner(*, strips_cr: bool = True, **limits: int) -> HeadScanner:
    """A scanner for client frames on an established connection."""
    settings = StompSettings(**limits)  # type: ignore[arg-type]
    return HeadScanner(settings, "server", Phase.CONNECTED, strips_cr=strips_cr)


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        ("1.0", r"a\nb\q", r"a\nb\q"),
        ("1.1", r"a\nb\cc\\d", "a\nb:c\\d"),
        ("1.2", r"a\nb\cc\\d\re", "a\nb:c\\d\re"),
        ("1.2", r"\c\n\r", ":\n\r"),
        ("1.2", r"\\n\\c", r"\n\c"),
        ("1.2", r"\\\\", r"\\"),
        ("1.2", "plain", "plain"),
    ],
)
def test_escapes_of_each_version_are_decoded(version: Version, text: str, expected: str) -> None:
    """
    None in 1.0, three in 1.1, four in 1.2; an escaped backslash starts no other escape.
    """
    assert expected == codec.unescape(text, version)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.1", r"\r"),
        ("1.1", r"\t"),
        ("1.2", r"\t"),
        ("1.2", "a\\"),
        ("1.2", r"\\\x"),
        ("1.2", "\\é"),
    ],
)
def test_undefined_escapes_are_fatal(version: Version, text: str) -> None:
    """
    STOMP 1.2, Value Encoding: undefined sequences must be treated as a fatal protocol error.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        codec.unescape(text, version)

    assert caught.value.code == "bad-escape"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.0", "a b:c\\d\re"), ("1.1", "a\\nb\\cc\\\\d\re"), ("1.2", "a\\nb\\cc\\\\d\\re")],
)
def test_text_is_escaped_as_the_version_can(version: Version, expected: str) -> None:
    """
    1.0 cannot escape, so the one character that would break its framing becomes a space.
    """
    assert expected == codec.escape("a\nb:c\\d\re", version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2", b"plain:1\na\\cb:x\\ny\nv:\\\\n\\c\\r.\n"),
        ("1.1", b"plain:1\na\\cb:x\\ny\nv:\\\\n\\c\r.\n"),
        ("1.0", b"plain:1\nv:\\n:\r.\n"),
    ],
)
def test_kept_lines_are_turned_into_those_of_another_version(
    version: Version, expected: bytes
) -> None:
    """
    1.1 has no escape for CR and 1.0 none at all, where a name with a colon has to go.
    """
    lines = b"plain:1\na\\cb:x\\ny\nv:\\\\n\\c\\r.\n"

    assert expected == codec.encode_lines(lines, version)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_each_kind_of_escape_is_work_once_however_many_there_are(version: Version) -> None:
    """
    A header of 250 KiB of them held the loop for 35 ms, for each delivery of it.
    """
    text = "\\:" * 5_000
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        escaped = codec.escape(text, "1.2")
        lines = codec.encode_lines(f"a:{escaped}\n".encode(), version)
        decoded = codec.unescape(lines[2:-1].decode(), version)
    finally:
        sys.setprofile(None)

    assert decoded == text
    assert calls < 40


@pytest.mark.parametrize(
    ("text", "named"), [(r"\c\t\n", r"'\\t'"), ("a\\", r"'\\'"), (r"\\\\\x", r"'\\x'")]
)
def test_the_first_undefined_escape_is_named(text: str, named: str) -> None:
    """
    The developer of the client is told what to look for.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        codec.unescape(text, "1.2")

    assert f"sequence {named} in" in str(caught.value)


def test_lines_without_escapes_are_not_copied() -> None:
    """
    The usual case costs nothing.
    """
    lines = b"persistent:true\n"

    assert codec.encode_lines(lines, "1.0") is lines
    assert codec.encode_lines(lines, "1.2") is lines


def test_a_frame_is_encoded_with_its_length() -> None:
    """
    A body gets a content-length, since it may hold NULs; a frame without body gets none.
    """
    headers = [("destination", "/queue/a:b")]

    assert codec.encode_frame("SEND", headers, b"a\0b", "1.2") == (
        b"SEND\ndestination:/queue/a\\cb\ncontent-length:3\n\na\0b\0"
    )
    assert codec.encode_frame("BEGIN", [], b"", "1.2") == b"BEGIN\n\n\0"
    given = [("content-length", "2")]
    assert codec.encode_frame("SEND", given, b"ab", "1.1") == b"SEND\ncontent-length:2\n\nab\0"


def test_connect_frames_are_not_escaped() -> None:
    """
    STOMP 1.2, Value Encoding: CONNECT and CONNECTED stay as 1.0 has them.
    """
    headers = [("passcode", "a:b\\c")]

    assert codec.encode_frame("CONNECT", headers, b"", "1.2") == b"CONNECT\npasscode:a:b\\c\n\n\0"


@pytest.mark.parametrize(
    ("command", "version", "header"),
    [
        ("CONNECT", "1.2", ("login", "a\nb")),
        ("CONNECT", "1.2", ("lo:gin", "a")),
        ("CONNECTED", "1.2", ("lo\ngin", "a")),
        ("ERROR", "1.0", ("a:b", "c")),
    ],
)
def test_what_cannot_be_written_without_escapes_is_our_error(
    command: str, version: Version, header: tuple[str, str]
) -> None:
    """
    Nothing that a user put into a header becomes another header.
    """
    with pytest.raises(LocalProtocolError) as caught:
        codec.encode_frame(command, [header], b"", version)

    assert caught.value.code == "bad-header"


def test_a_receipt_goes_back_as_it_came() -> None:
    """
    Raw in, raw out: escapes included.
    """
    assert codec.encode_receipt(b"a\\cb") == b"RECEIPT\nreceipt-id:a\\cb\n\n\0"


@pytest.mark.parametrize(
    ("head", "rest", "value"),
    [
        (b"SEND\nreceipt:1\na:b\n", b"SEND\na:b\n", b"1"),
        (b"SEND\na:b\nreceipt:1\n", b"SEND\na:b\n", b"1"),
        (b"SEND\nreceipt:1\nreceipt:2\n", b"SEND\nreceipt:2\n", b"1"),
        (b"SEND\nreceipt:\n", b"SEND\n", b""),
        (b"SEND\nxreceipt:1\n", b"SEND\nxreceipt:1\n", None),
        (b"SEND\nreceipt-id:1\n", b"SEND\nreceipt-id:1\n", None),
    ],
)
def test_the_first_line_of_a_name_is_cut_out(head: bytes, rest: bytes, value: bytes | None) -> None:
    """
    Wherever it stands; the remaining lines stay whole.
    """
    assert (rest, value) == codec.cut_line(head, b"\nreceipt:")


def test_raw_values_are_checked_without_decoding_more_than_needed() -> None:
    """
    What is echoed undecoded is still valid in the version.
    """
    codec.check_raw(None, "1.2")
    codec.check_raw(b"plain:even with a colon", "1.2")
    codec.check_raw("é\\c".encode(), "1.2")
    for wrong, code in [(b"\\q", "bad-escape"), (b"\xff", "bad-header")]:
        with pytest.raises(RemoteProtocolError) as caught:
            codec.check_raw(wrong, "1.2")
        assert code == caught.value.code


def test_headers_are_decoded_and_the_first_of_a_name_wins() -> None:
    """
    STOMP 1.2, Repeated Header Entries; also where two spellings decode to one name.
    """
    head = b"SEND\nfoo:World\nfoo:Hello\nb\\\\:1\nb\\\\:2\nempty:\nx:a:b\n"

    assert codec.parse_headers(head, "1.2") == {
        "foo": "World",
        "b\\": "1",
        "empty": "",
        "x": "a:b",
    }
    assert codec.parse_headers(b"DISCONNECT\n", "1.2") == {}


def test_only_version_1_0_trims_values() -> None:
    """
    Its examples pad; 1.2, Value Encoding, forbids to trim or pad.
    """
    head = b"SEND\ndestination: /queue/a \n"

    assert codec.parse_headers(head, "1.0") == {"destination": "/queue/a"}
    assert codec.parse_headers(head, "1.1") == {"destination": " /queue/a "}
    assert codec.parse_headers(head, "1.2") == {"destination": " /queue/a "}


def test_unescaped_frames_keep_their_backslashes() -> None:
    """
    A password in CONNECT may hold any sequence.
    """
    head = b"CONNECT\npasscode:a\\qb\n"

    assert codec.parse_headers(head, "1.2", is_escaped=False) == {"passcode": "a\\qb"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"nocolon", "bad-header"),
        (b":value", "bad-header"),
        (b"a:\xff", "bad-header"),
        (b"a:\\q", "bad-escape"),
        (b"\\q:a", "bad-escape"),
        (b"no\\ccolon", "bad-header"),
    ],
)
def test_malformed_header_lines_are_refused(line: bytes, code: str) -> None:
    """
    A line is name:value in UTF-8 with defined escapes and a name.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        codec.parse_headers(b"SEND\na:b\n" + line + b"\n", "1.2")

    assert code == caught.value.code


@pytest.mark.parametrize(("value", "expected"), [(None, -1), ("0", 0), ("100", 100), ("0007", 7)])
def test_content_length_is_read(value: str | None, expected: int) -> None:
    """
    Without the header the body ends at the first NUL, which is -1.
    """
    headers = {} if value is None else {"content-length": value}

    assert expected == codec.parse_length(headers, 100)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "bad-content-length"),
        ("-1", "bad-content-length"),
        ("+1", "bad-content-length"),
        ("1_0", "bad-content-length"),
        ("²", "bad-content-length"),
        ("101", "body-too-large"),
        ("9" * 5000, "body-too-large"),
    ],
)
def test_content_length_that_makes_no_sense_is_refused(value: str, code: str) -> None:
    """
    Digits only, within the limit; five thousand digits cost no time.
    """
    with pytest.raises(RemoteProtocolError) as caught:
        codec.parse_length({"content-length": value}, 100)

    assert code == caught.value.code


@pytest.mark.parametrize(
    ("data", "strips_cr", "head"),
    [
        (b"SEND\na:b\n\nbody", True, b"SEND\na:b\n"),
        (b"SEND\r\na:b\r\n\r\nbody", True, b"SEND\na:b\n"),
        (b"SEND\na:b\r\n\nbody", True, b"SEND\na:b\n"),
        (b"SEND\na:b\r\n\nbody", False, b"SEND\na:b\r\n"),
        (b"SEND\na:b\r\r\n\r\nbody", True, b"SEND\na:b\r\n"),
        (b"SEND\na:b\n\r\nbody", True, b"SEND\na:b\n"),
    ],
)
def test_a_head_is_found_however_its_lines_end(data: bytes, strips_cr: bool, head: bytes) -> None:
    """
    Whole or octet by octet: lines come out with LF, and the body starts where it starts.
    """
    whole = scanner(strips_cr=strips_cr)
    after = whole.feed(data, 0)

    assert (head, b"body") == (whole.head, data[after:])
    octets = scanner(strips_cr=strips_cr)
    results = [octets.feed(data[at : at + 1], 0) for at in range(after)]
    assert head == octets.head
    assert results == [-1] * (after - 1) + [1]


@pytest.mark.parametrize(
    ("data", "good", "code"),
    [
        (b"X" * 21, 20, "command-too-long"),
        (b"SEND\n" + b"a:" + b"x" * 29, 5 + 30, "header-too-long"),
        (b"SEND\n" + b"a:b\n" * 6, 5 + 23, "too-many-headers"),
        (b"SEND\n" + (b"a:" + b"x" * 15 + b"\n") * 4, 70, "header-block-too-large"),
        (b"SPEND\n", 5, "unknown-command"),
        (b"CONNECT\n", 7, "already-connected"),
    ],
)
def test_the_first_octet_too_many_is_the_one_that_fails(data: bytes, good: int, code: str) -> None:
    """
    Limits hold while the frame is incomplete, at the same octet however it arrives.
    """
    limits = {
        "command_bytes_max": 20,
        "header_line_bytes_max": 30,
        "header_count_max": 5,
        "header_block_bytes_max": 70,
    }
    patient = scanner(**limits)
    for at in range(good):
        assert patient.feed(data[at : at + 1], 0) == -1
    with pytest.raises(RemoteProtocolError) as caught:
        patient.feed(data[good : good + 1], 0)
    assert code == caught.value.code

    assert scanner(**limits).feed(data[:good], 0) == -1
    with pytest.raises(RemoteProtocolError) as caught:
        scanner(**limits).feed(data, 0)
    assert code == caught.value.code


def test_the_most_headers_allowed_are_allowed() -> None:
    """
    The limit counts header lines, not the blank line after them.
    """
    full = scanner(header_count_max=5)

    assert full.feed(b"SEND\n" + b"a:b\n" * 5 + b"\r\n", 0) == 5 + 20 + 2
