"""
One STOMP connection: frames in every kind of chunk, phases, failures, both roles.

Whatever is parsed is parsed three ways: whole, octet by octet, and with other frames around it.
"""

from __future__ import annotations

import tracemalloc
from itertools import product

import pytest

from holdfast.errors import LocalProtocolError
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    HeaderBlock,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heart_beat import HeartBeat
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import Role, Version

SETTINGS = StompSettings(body_bytes_max=1_000_000)
STRICT = StompSettings(body_bytes_max=1_000_000, is_strict=True)
BEGIN = b"BEGIN\ntransaction:t\n\n\0"
BEGIN_FRAME = Frame("BEGIN", {"transaction": "t"})


def connected(
    version: Version = "1.2", role: Role = "server", settings: StompSettings = SETTINGS
) -> StompConnection:
    """An established connection of this version, with no events left."""
    connection = StompConnection(role, settings)
    if role == "server":
        connection.receive_data(f"CONNECT\naccept-version:{version}\n\n\0".encode())
    else:
        connection.receive_data(f"CONNECTED\nversion:{version}\n\n\0".encode())
    assert len(connection.events_received()) == 1
    return connection


def received(connection: StompConnection, *chunks: bytes) -> list[Event]:
    """The events of these chunks."""
    for chunk in chunks:
        connection.receive_data(chunk)
    return connection.events_received()


def octets(data: bytes) -> list[bytes]:
    """The data as chunks of one octet."""
    return [data[at : at + 1] for at in range(len(data))]


def failure(events: list[Event]) -> ProtocolFailed:
    """The failure that ends these events."""
    assert isinstance(events[-1], ProtocolFailed)
    return events[-1]


def send_frame(
    body: bytes = b"hello", receipt: bytes | None = None, sequence: bytes | None = None
) -> SendFrame:
    """The SEND frame that most tests use."""
    headers = {"destination": "/queue/a", "content-length": str(len(body))}
    lines = f"content-length:{len(body)}\n".encode()
    return SendFrame(HeaderBlock(headers, lines, len(body)), receipt, sequence, body)


FRAMES: list[tuple[Role, Version, bytes, Event]] = [
    ("server", "1.2", BEGIN, BEGIN_FRAME),
    ("server", "1.2", BEGIN.replace(b"\n", b"\r\n"), BEGIN_FRAME),
    (
        "server",
        "1.2",
        b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0",
        send_frame(),
    ),
    (
        "server",
        "1.2",
        b"SEND\r\ndestination:/queue/a\r\nreceipt:4\r\ncontent-length:5\r\n\r\nhello\0",
        send_frame(receipt=b"4"),
    ),
    (
        "server",
        "1.2",
        b"SEND\nreceipt:a\\cb\ndestination:/queue/a\ncontent-length:5\nproducer-sequence:9\n\nhe\0lo\0",
        send_frame(b"he\0lo", b"a\\cb", b"9"),
    ),
    (
        "server",
        "1.1",
        b"SEND\nproducer-sequence:x\ncontent-length:0\nreceipt:1\n\n\0".replace(
            b"content", b"destination:/queue/a\ncontent"
        ),
        SendFrame(
            HeaderBlock(
                {"destination": "/queue/a", "content-length": "0"}, b"content-length:0\n", 0
            ),
            b"1",
            b"x",
            b"",
        ),
    ),
    (
        "server",
        "1.0",
        b"SEND\ndestination: /queue/a\n\nhello\0",
        SendFrame(HeaderBlock({"destination": "/queue/a"}, b"", -1), None, None, b"hello"),
    ),
    ("server", "1.2", b"ACK\nid:12\n\n\0", AcknowledgeFrame(b"12", None, None, negative=False)),
    (
        "server",
        "1.2",
        b"ACK\nid:I\\cD\n\n\0",
        AcknowledgeFrame(b"I\\cD", None, None, negative=False),
    ),
    (
        "server",
        "1.2",
        b"ACK\nreceipt:5\nid:" + b"9" * 300 + b"\n\n\0",
        AcknowledgeFrame(b"9" * 300, b"5", None, negative=False),
    ),
    ("server", "1.2", b"NACK\nid:1\n\n\0", AcknowledgeFrame(b"1", None, None, negative=True)),
    (
        "server",
        "1.2",
        b"ACK\nid:1\ntransaction:t\nreceipt:2\n\n\0",
        AcknowledgeFrame(
            b"1", b"2", HeaderBlock({"id": "1", "transaction": "t"}, b""), negative=False
        ),
    ),
    (
        "server",
        "1.1",
        b"NACK\nsubscription:s\nmessage-id:m\n\n\0",
        AcknowledgeFrame(
            b"m", None, HeaderBlock({"subscription": "s", "message-id": "m"}, b""), negative=True
        ),
    ),
    (
        "server",
        "1.0",
        b"ACK\nmessage-id:m\n\n\0",
        AcknowledgeFrame(b"m", None, HeaderBlock({"message-id": "m"}, b""), negative=False),
    ),
    (
        "server",
        "1.2",
        b"SUB\nid:0\ndestination:/queue/a\nreceipt:r\\cs\n\n\0",
        Frame(
            "SUBSCRIBE",
            {"id": "0", "destination": "/queue/a", "receipt": "r:s"},
            b"",
            b"r\\cs",
        ),
    ),
    ("server", "1.2", b"UNSUB\nid:0\n\n\0", Frame("UNSUBSCRIBE", {"id": "0"})),
    ("server", "1.0", b"BEGIN\ntransaction:t\n\nignored\0", BEGIN_FRAME),
    (
        "client",
        "1.2",
        b"MESSAGE\ndestination:/q\nmessage-id:I\\cD\nsubscription:0\ncontent-length:3\n\na\0b\0",
        Frame(
            "MESSAGE",
            {
                "destination": "/q",
                "message-id": "I:D",
                "subscription": "0",
                "content-length": "3",
            },
            b"a\0b",
        ),
    ),
    ("client", "1.2", b"RECEIPT\nreceipt-id:7\n\n\0", Frame("RECEIPT", {"receipt-id": "7"})),
    ("client", "1.0", b"RECEIPT\nreceipt-id: 7\n\n\0", Frame("RECEIPT", {"receipt-id": "7"})),
    (
        "client",
        "1.1",
        b"ERROR\nmessage:no\n\nwhy\0",
        Frame("ERROR", {"message": "no"}, b"why"),
    ),
]


@pytest.mark.parametrize(("role", "version", "wire", "event"), FRAMES)
def test_a_frame_is_read_three_ways(
    role: Role, version: Version, wire: bytes, event: Event
) -> None:
    """
    Whole, octet by octet, and among frames like it, with line ends between.
    """
    assert received(connected(version, role), wire) == [event]
    assert received(connected(version, role), *octets(wire)) == [event]
    assert received(connected(version, role), b"\n" + wire + b"\r\n" + wire * 2) == [event] * 3
    connection = connected(version, role)
    assert received(connection, wire + wire[:-1]) == [event]
    assert received(connection, wire[-1:] + wire) == [event] * 2


def test_constant_headers_are_decoded_once() -> None:
    """
    Frames that differ only in receipt and sequence share one block, wherever those lines stand.
    """
    connection = connected()
    wire = b"".join(
        b"SEND\n%bdestination:/queue/a\ncontent-length:5\n\nhello\0" % varying
        for varying in (b"", b"receipt:1\n", b"receipt:2\nproducer-sequence:1\n")
    )
    wire += b"SEND\ndestination:/queue/a\ncontent-length:5\nreceipt:3\n\nhello\0"

    events = received(connection, wire, *octets(wire))

    sends = [event for event in events if isinstance(event, SendFrame)]
    assert len(sends) == 8
    assert len({id(event.block) for event in sends}) == 1
    assert [event.receipt for event in sends[:4]] == [None, b"1", b"2", b"3"]


def test_the_cache_of_blocks_is_bounded() -> None:
    """
    A producer whose headers never repeat does not make the connection grow.
    """
    settings = StompSettings(header_cache_entries_max=4, header_cache_block_bytes_max=100)
    connection = connected(settings=settings)
    wires = [b"SEND\ndestination:/queue/%d\n\n\0" % number for number in range(50)]
    wires.append(b"SEND\ndestination:/queue/%b\n\n\0" % (b"x" * 100))

    assert len(received(connection, b"".join(wires))) == 51
    assert len(connection._blocks) <= 4
    assert all(len(head) <= 100 for head in connection._blocks)


def test_the_cache_of_blocks_takes_no_more_memory_than_is_said() -> None:
    """
    Two KiB of the shortest headers take forty KiB decoded: 10 MB for one connection, once, that had
    sent half of one.
    """
    names = [bytes(pair) for pair in product(b"abcdefghijklmnopqrstuvwx", repeat=2)][:480]
    lines = b"".join(name + b":\n" for name in names)
    connection = connected()
    tracemalloc.start()
    try:
        for number in range(60):
            received(connection, b"SEND\ndestination:/queue/a\nn:%d\n%b\n\0" % (number, lines))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert connection._blocks
    assert taken < 256 * 1024


def test_a_large_body_arrives_in_chunks_of_any_size() -> None:
    """
    Chunks small and large in turn are joined in their order.
    """
    body = bytes(range(256)) * 400
    wire = b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (len(body), body)
    for sizes in ([1, 2, 3, 5000, 7], [70_000], [100], [4096, 1, 1]):
        connection = connected()
        at = turn = 0
        while at < len(wire):
            connection.receive_data(wire[at : at + sizes[turn % len(sizes)]])
            at += sizes[turn % len(sizes)]
            turn += 1

        assert connection.events_received() == [send_frame(body)]


def test_a_body_without_length_arrives_in_chunks() -> None:
    """
    It ends at the first NUL, whichever chunk that is in.
    """
    connection = connected()

    events = received(connection, b"SEND\ndestination:/q\n\nab", b"c", b"", b"d\0" + BEGIN)

    assert [str(event) for event in events] == ["SEND /q [4 bytes]", str(BEGIN_FRAME)]


@pytest.mark.parametrize(
    ("role", "version", "wire", "code", "receipt"),
    [
        ("server", "1.2", b"GET / HTTP/1.1\n", "unknown-command", None),
        ("server", "1.2", b"send\n\n\0", "unknown-command", None),
        ("server", "1.2", b"MESSAGE\n\n\0", "unknown-command", None),
        ("server", "1.0", b"NACK\nmessage-id:1\n\n\0", "unknown-command", None),
        ("server", "1.2", b"CONNECT\n\n\0", "already-connected", None),
        ("server", "1.2", b"STOMP\n\n\0", "already-connected", None),
        ("client", "1.2", b"CONNECTED\n\n\0", "already-connected", None),
        ("server", "1.2", b"SEND\nreceipt:5\n\n\0", "missing-header", b"5"),
        ("server", "1.2", b"SUBSCRIBE\nreceipt:5\nid:1\n\n\0", "missing-header", b"5"),
        ("server", "1.2", b"ACK\nmessage-id:5\n\n\0", "missing-header", None),
        ("server", "1.2", b"BEGIN\ntransaction:t\n\nx\0", "body-not-allowed", None),
        ("server", "1.2", b"ACK\nid:1\n\nx\0", "body-not-allowed", None),
        (
            "server",
            "1.2",
            b"BEGIN\ncontent-length:1\ntransaction:t\n\nx\0",
            "body-not-allowed",
            None,
        ),
        (
            "server",
            "1.2",
            b"SEND\nreceipt:r\ndestination:/q\ncontent-length:2\n\nabc\0",
            "bad-content-length",
            b"r",
        ),
        (
            "server",
            "1.2",
            b"SEND\ndestination:/q\ncontent-length:1000001\n\n",
            "body-too-large",
            None,
        ),
        (
            "server",
            "1.2",
            b"SEND\ndestination:/q\ncontent-length:x\n\n",
            "bad-content-length",
            None,
        ),
        ("server", "1.2", b"SEND\ndestination:\\t\n\n", "bad-escape", None),
        ("server", "1.2", b"SEND\ndestination:/q\nreceipt:\\t\n\n", "bad-escape", None),
        ("server", "1.2", b"ACK\nid:\\t\n\n", "bad-escape", None),
        ("server", "1.1", b"SEND\ndestination:a\\r\n\n", "bad-escape", None),
        ("server", "1.1", b"SEND\ndestination:a\n\r\n\n", "bad-header", None),
        ("server", "1.2", b"SEND\ndestination:\xff\n\n", "bad-header", None),
        ("server", "1.2", b"SEND\ndestination\n\n", "bad-header", None),
        ("server", "1.2", b"X" * 1025, "command-too-long", None),
        ("server", "1.2", b"SEND\n" + b"x" * 10_241, "header-too-long", None),
        ("server", "1.2", b"SEND\n" + b"a:b\n" * 1001, "too-many-headers", None),
        (
            "server",
            "1.2",
            b"SEND\n" + (b"a:" + b"x" * 9997 + b"\n") * 27,
            "header-block-too-large",
            None,
        ),
    ],
)
def test_a_broken_rule_is_the_last_event(
    role: Role, version: Version, wire: bytes, code: str, receipt: bytes | None
) -> None:
    """
    One failure with a stable code, and with the receipt of the frame where that is readable;
    frames before it count, bytes after it do not.
    """
    connection = connected(version, role, STRICT)
    events = received(connection, b"\n" + wire, BEGIN)

    assert len(events) == 1
    assert (code, receipt) == (failure(events).error.code, failure(events).receipt)
    assert received(connection, BEGIN) == []
    connection.receive_eof()
    assert connection.events_received() == []
    if len(wire) < 2000:
        events = received(connected(version, role, STRICT), *octets(wire))
        assert (code, receipt) == (failure(events).error.code, failure(events).receipt)


def test_a_cached_block_does_not_excuse_the_frame() -> None:
    """
    The quick path checks what varies: the end of the body, the receipt's escapes.
    """
    good = b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0"

    wrong_end = received(connected(), good + good.replace(b"hello", b"hello!"))
    assert failure(wrong_end).error.code == "bad-content-length"
    wrong_receipt = received(
        connected(settings=STRICT), good + good.replace(b"\n\n", b"\nreceipt:\\x\n\n")
    )
    assert failure(wrong_receipt).error.code == "bad-escape"


def test_an_unfinished_body_never_grows_past_its_limit() -> None:
    """
    Without content-length the limit bites as soon as the octets kept would pass it.
    """
    connection = connected(settings=StompSettings(body_bytes_max=100))
    head = b"SEND\ndestination:/q\n\n"

    assert received(connection, head + b"x" * 60, b"x" * 40) == []
    assert failure(received(connection, b"x")).error.code == "body-too-large"
    whole = received(
        connected(settings=StompSettings(body_bytes_max=100)), head + b"x" * 100 + b"\0"
    )
    assert str(whole[0]) == "SEND /q [100 bytes]"


@pytest.mark.parametrize("unfinished", [b"SEND\ndest", b"SEND\ndestination:/q\n\nab", b"ACK"])
def test_the_end_inside_a_frame_is_an_error(unfinished: bytes) -> None:
    """
    A peer that goes away in the middle has not said what it wanted; between frames it may.
    """
    connection = connected()
    connection.receive_data(unfinished)
    connection.receive_eof()

    assert failure(connection.events_received()).error.code == "unexpected-end"
    polite = connected()
    polite.receive_data(BEGIN + b"\n")
    polite.receive_eof()
    assert polite.events_received() == [BEGIN_FRAME]
    assert received(polite, BEGIN) == []


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
def test_connecting_negotiates_version_and_tells_heart_beats(command: bytes) -> None:
    """
    The frames behind CONNECT in the same chunk are read in the version it asked for.
    """
    connection = StompConnection("server", SETTINGS)
    assert not connection.is_connected

    events = received(
        connection,
        b"\n" + command + b"\naccept-version:1.0,1.1\nheart-beat:100,200\npasscode:\\q\n\n\0"
        b"ACK\nsubscription:s\nmessage-id:a\\nb\n\n\0",
    )

    assert isinstance(events[0], Frame)
    assert events[0].command == "CONNECT"
    assert events[0].headers["passcode"] == "\\q"
    assert isinstance(events[1], AcknowledgeFrame)
    assert connection.version == "1.1"
    assert connection.is_connected
    assert connection.peer_heart_beat == (100, 200)


@pytest.mark.parametrize(
    ("role", "wire", "code"),
    [
        ("server", b"SEND\ndestination:/q\n\n\0", "not-connected"),
        ("server", b"CONNECT\naccept-version:3.0\n\n\0", "version"),
        ("server", b"CONNECT\nheart-beat:x\n\n\0", "bad-heart-beat"),
        ("server", b"CONNECT\n\nbody\0", "body-not-allowed"),
        ("client", b"MESSAGE\n\n\0", "not-connected"),
        ("client", b"CONNECTED\nversion:9\n\n\0", "version"),
    ],
)
def test_a_bad_start_fails(role: Role, wire: bytes, code: str) -> None:
    """
    The first frame must connect, in a version we speak.
    """
    for chunks in ([wire], octets(wire)):
        connection = StompConnection(role, STRICT)
        assert failure(received(connection, *chunks)).error.code == code
        assert not connection.is_connected


def test_a_client_sees_the_refusal_of_its_connect() -> None:
    """
    ERROR may come instead of CONNECTED, and is not a protocol failure.
    """
    connection = StompConnection("client")

    events = received(connection, b"ERROR\nmessage:go away\n\n\0CONNECTED\n\n\0")

    assert events == [Frame("ERROR", {"message": "go away"}), Frame("CONNECTED", {})]
    assert connection.version == "1.0"


def test_nothing_is_read_after_disconnect() -> None:
    """
    What a client sends behind DISCONNECT, in the same chunk or later, is not looked at.
    """
    connection = connected()

    events = received(connection, b"DISCONNECT\nreceipt:9\n\n\0" + BEGIN + b"nonsense", BEGIN)

    assert events == [Frame("DISCONNECT", {"receipt": "9"}, b"", b"9")]
    assert not connection.is_connected


def test_frames_are_sent_in_the_version_agreed_on() -> None:
    """
    Queued in order, escaped for the peer, taken once.
    """
    connection = connected("1.1", "client")
    connection.send_frame("BEGIN", [("transaction", "a:b\r")])
    connection.send_frame("SEND", [("destination", "/q")], b"x")

    assert connection.data_to_send() == (
        b"BEGIN\ntransaction:a\\cb\r\n\n\0SEND\ndestination:/q\ncontent-length:1\n\nx\0"
    )
    assert connection.data_to_send() == b""


@pytest.mark.parametrize(
    ("role", "version", "command", "body", "code"),
    [
        ("client", "1.2", "MESSAGE", b"", "unknown-command"),
        ("server", "1.2", "SEND", b"", "unknown-command"),
        ("client", "1.0", "NACK", b"", "unknown-command"),
        ("client", "1.2", "BEGIN", b"x", "body-not-allowed"),
    ],
)
def test_we_do_not_send_what_the_protocol_forbids(
    role: Role, version: Version, command: str, body: bytes, code: str
) -> None:
    """
    A frame of the other role, of another version, or with a body it must not have is our mistake.
    """
    connection = connected(version, role)

    with pytest.raises(LocalProtocolError) as caught:
        connection.send_frame(command, [], body)

    assert caught.value.code == code
    assert connection.data_to_send() == b""


def test_deadlines_run_through_the_connection() -> None:
    """
    First the connect timeout, then the heart-beats agreed on; time is what it is told.
    """
    connection = StompConnection("server", SETTINGS, opened_at=100.0)
    assert connection.deadline == 130.0
    assert connection.handle_deadline(131.0) is HeartBeat.PEER_DEAD
    connection.receive_data(b"CONNECT\nheart-beat:1000,2000\n\n\0")
    assert connection.deadline is None

    connection.negotiate_heart_beats((1000, 1000), connection.peer_heart_beat)
    connection.note_received(101.0)
    connection.note_sent(101.0)

    assert connection.deadline == 102.0
    assert connection.handle_deadline(102.0) is HeartBeat.SEND
    assert connection.handle_deadline(102.5) is HeartBeat.PEER_DEAD


def test_quick_paths_stay_off_under_limits_smaller_than_they_need() -> None:
    """
    A limit that the run of acknowledgements could jump over is kept by the general path.
    """
    tight = StompSettings(header_line_bytes_max=20)
    connection = connected(settings=tight)

    events = received(
        connection, b"ACK\nid:" + b"1" * 17 + b"\n\n\0ACK\nid:" + b"1" * 18 + b"\n\n\0"
    )

    assert len(events) == 2
    assert failure(events).error.code == "header-too-long"


def test_frames_of_many_headers_count_for_several() -> None:
    """
    The clock is looked at between two calls: 64 frames of 900 headers took 20 ms and more.
    """
    connection = connected()
    frame = b"SEND\ndestination:/queue/a\n" + b"".join(b"%x:\n" % i for i in range(900)) + b"\n\0"

    connection.receive_data(frame * 10, slow_frames_max=64)

    assert len(connection.events_received()) == 1
    assert connection.has_more
    count = 1
    while connection.has_more:
        connection.receive_data(b"", slow_frames_max=64)
        count += len(connection.events_received())
    assert count == 10
