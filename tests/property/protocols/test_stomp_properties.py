"""
What must hold for any bytes on a STOMP connection, not only for those somebody thought of.

The generators mix whole frames, almost-frames and noise, under limits small enough to be hit, so
that every path of the parser meets every other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import RemoteProtocolError
from holdfast.protocols.stomp.codec import encode_frame, encode_lines, escape, unescape
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import Event, Frame, ProtocolFailed
from holdfast.protocols.stomp.mapping import visible_lines
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import VERSIONS, Role, Version

SMALL = StompSettings(
    command_bytes_max=40,
    header_line_bytes_max=60,
    header_count_max=50,
    header_block_bytes_max=150,
    body_bytes_max=64,
    header_cache_entries_max=3,
)
ROOMY = StompSettings(body_bytes_max=64)

versions = st.sampled_from(VERSIONS)
all_settings = st.builds(replace, st.sampled_from([SMALL, ROOMY]), is_strict=st.booleans())
pieces = st.sampled_from(
    [
        *(b"content-length:3 \n", b"id\n", b"destination\n", b"\0\0\n", b"receipt\n"),
        *(b"SEND\n", b"ACK\n", b"NACK\n", b"SUBSCRIBE\n", b"SUB\n", b"BEGIN\n", b"DISCONNECT\n"),
        *(b"MESSAGE\n", b"RECEIPT\n", b"ERROR\n", b"CONNECTED\n", b"CONNECT\n", b"SEND\r\n"),
        *(b"destination:/queue/a\n", b"destination:/queue/a\r\n", b"id:1\n", b"id:\n", b"id:x\r\n"),
        *(
            b"receipt:7\n",
            b"receipt:a\\cb\n",
            b"receipt:\\q\n",
            b"receipt:x\r\n",
            b"receipt:\xff\n",
        ),
        *(b"producer-sequence:9\n", b"producer-sequence:n\n", b"message-id:1\n"),
        *(b"subscription:0\n", b"receipt-id:5\n", b"transaction:t\n", b"a\\nb:c\\\\\n", b"x:\\t\n"),
        *(b"content-length:3\n", b"content-length:65\n", b"content-length:-1\n", b"nocolon\n"),
        *(b":empty\n", b"content-length:0\n", b"x:" + b"y" * 70 + b"\n", b"utf:\xc3\xa4\n"),
        *(b"\n", b"\r\n", b"\r", b"\0", b"abc", b"abc\0", b"\0\n", b"\n\n", b"\xff"),
        *(b"ACK\nid:12\n\n\0", b"ACK\nid:1-2\n\n\0\n", b"RECEIPT\nreceipt-id:r\n\n\0"),
        b"SEND\ndestination:/queue/a\nreceipt:1\ncontent-length:3\n\nabc\0",
        b"SEND\nreceipt:2\ndestination:/queue/a\ncontent-length:3\n\na\0c\0",
        b"SEND\ndestination:/queue/b\nproducer-sequence:4\n\nbody\0\n",
        b"SEND\r\ndestination:/queue/b\r\nreceipt:3\r\n\r\nbody\0",
        b"MESSAGE\ndestination:/q\nmessage-id:1\nsubscription:0\n\nbody\0",
    ]
)
streams = st.lists(st.one_of(pieces, pieces, pieces, st.binary(max_size=8)), max_size=24).map(
    b"".join
)
cuttings = st.lists(st.integers(0, 600), max_size=8)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def greeting(role: Role, version: Version) -> bytes:
    """The frame that establishes a connection of this version."""
    if role == "server":
        return f"CONNECT\naccept-version:{version}\nhost:h\n\n\0".encode()
    return f"CONNECTED\nversion:{version}\n\n\0".encode()


def parse(
    role: Role,
    settings: StompSettings,
    data: bytes,
    cuts: list[int],
    slow_frames_max: int = 1 << 30,
) -> tuple[list[Event], bool]:
    """All events of a stream that arrives cut at these places, then ends."""
    connection = StompConnection(role, settings)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, stop in pairwise(places):
        connection.receive_data(data[start:stop], slow_frames_max=slow_frames_max)
        if start % 2:  # Else what was left off is parsed with the next piece.
            while connection.has_more:
                connection.receive_data(b"", slow_frames_max=slow_frames_max)
    while connection.has_more:
        connection.receive_data(b"", slow_frames_max=slow_frames_max)
    connection.receive_eof()
    return connection.events_received(), connection.is_connected


def comparable(events: list[Event]) -> list[str]:
    """Events as text: errors have no equality of their own."""
    return [
        f"failed {event.error.code} {event.error} {event.receipt!r}"
        if isinstance(event, ProtocolFailed)
        else repr(event)
        for event in events
    ]


@given(st.sampled_from(["server", "client"]), versions, streams, cuttings, all_settings)
@example("server", "1.2", b"ACK\nid:1\n\n\0DISCONNECT\n\n\0ACK\nid:1\n\n\0", [3, 12], ROOMY)
@example("server", "1.2", b"SEND\ndestination:/q\r\n\r\nab\n\ncd\0", [21], ROOMY)
@example("server", "1.2", b"ACK\nid\n\n\0", [3], ROOMY)
def test_the_result_does_not_depend_on_how_bytes_were_cut(
    role: Role, version: Version, stream: bytes, cuts: list[int], settings: StompSettings
) -> None:
    """
    Whole, byte by byte and in random chunks, a stream gives the same events.
    """
    data = greeting(role, version) + stream
    whole, whole_state = parse(role, settings, data, [])

    pieces, pieces_state = parse(role, settings, data, cuts)
    assert comparable(whole) == comparable(pieces)
    assert whole_state == pieces_state
    octets, octets_state = parse(role, settings, data, list(range(len(data))))
    assert comparable(whole) == comparable(octets)
    slices, slices_state = parse(role, settings, data, cuts, slow_frames_max=1)
    assert comparable(whole) == comparable(slices)
    assert whole_state == slices_state
    assert whole_state == octets_state


@given(versions, streams, st.booleans())
def test_the_cache_of_header_blocks_changes_nothing(
    version: Version, stream: bytes, is_strict: bool
) -> None:
    """
    The quick path for repeated headers gives what the general path gives.
    """
    cached = replace(ROOMY, is_strict=is_strict)
    uncached = replace(cached, header_cache_block_bytes_max=0)
    data = greeting("server", version) + stream + stream

    quick = parse("server", cached, data, [])[0]
    general = parse("server", uncached, data, [])[0]

    assert comparable(general) == comparable(quick)


@given(
    st.sampled_from(["server", "client"]),
    st.booleans(),
    st.one_of(st.binary(), streams),
    all_settings,
)
def test_any_bytes_give_events_or_one_failure(
    role: Role, connected: bool, noise: bytes, settings: StompSettings
) -> None:
    """
    Nothing a peer sends raises; a failure is the last event and carries a code.
    """
    data = greeting(role, "1.2") * connected + noise

    events = parse(role, settings, data, [])[0]

    failures = [event for event in events if isinstance(event, ProtocolFailed)]
    assert len(failures) <= 1
    assert failures == [] or failures[0] is events[-1]
    assert all(isinstance(failure.error, RemoteProtocolError) for failure in failures)
    assert all(failure.error.code != "protocol-error" for failure in failures)


@given(st.lists(st.tuples(versions, streams), min_size=1, max_size=3), st.binary(max_size=30))
def test_bytes_after_a_frame_do_not_change_it(
    parts: list[tuple[Version, bytes]], tail: bytes
) -> None:
    """
    Trailing bytes only add events: those of a complete stream stay as they are.
    """
    data = greeting("server", parts[0][0]) + b"".join(stream for _, stream in parts)
    connection = StompConnection("server", ROOMY)
    connection.receive_data(data)
    before = comparable(connection.events_received())

    connection = StompConnection("server", ROOMY)
    connection.receive_data(data + tail)
    after = comparable(connection.events_received())

    assert before == after[: len(before)]


@given(
    st.sampled_from(["1.1", "1.2"]),
    st.dictionaries(texts.filter(bool), texts, max_size=6),
    st.binary(max_size=64),
)
def test_a_frame_survives_the_wire(version: Version, headers: dict[str, str], body: bytes) -> None:
    """
    What one side encodes the other decodes, whatever is in headers and body.
    """
    headers = {"destination": "/q", "message-id": "1", "subscription": "0"} | headers
    headers["content-length"] = str(len(body))
    connection = StompConnection("client", ROOMY)
    connection.receive_data(greeting("client", version))
    connection.events_received()

    connection.receive_data(encode_frame("MESSAGE", headers.items(), body, version))

    assert [Frame("MESSAGE", headers, body, None)] == [
        Frame(event.command, event.headers, event.body, None)
        for event in connection.events_received()
        if isinstance(event, Frame)
    ]


@given(texts, st.sampled_from(["1.1", "1.2"]))
def test_escapes_are_undone(text: str, version: Version) -> None:
    """
    Unescaping is the inverse of escaping, and what is escaped holds no delimiter.
    """
    escaped = escape(text, version)

    assert text == unescape(escaped, version)
    assert "\n" not in escaped
    assert ":" not in escaped


@given(st.dictionaries(texts.filter(bool), texts, max_size=6))
def test_visible_lines_reach_clients_of_other_versions(headers: dict[str, str]) -> None:
    """
    Lines kept with 1.2 escapes decode to the same headers for a 1.1 client; a 1.0 client gets
    lines that are still lines.
    """
    lines = visible_lines(headers)
    modern = encode_lines(lines, "1.1").split(b"\n")[:-1]
    ancient = encode_lines(lines, "1.0")

    decoded = {
        unescape(name, "1.1"): unescape(value, "1.1")
        for name, value in (line.decode().split(":", 1) for line in modern)
    }
    visible = visible_lines(decoded)
    assert lines == visible
    assert ancient.count(b"\n") <= lines.count(b"\n")
