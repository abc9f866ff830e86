"""The load itself: it must not misread a broker, nor miss what it did, and so accuse it."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from trials.clients.load import FrameReader, Load, LoadSettings

STREAM = (
    b"\n\nCONNECTED\nversion:1.2\n\n\0\n"
    b"MESSAGE\nack:1\nack:2\ncontent-length:7\n\na\0b\n\nc\n\0RECEIPT\nreceipt-id:5\n\n\0"
)
FRAMES = [
    (b"CONNECTED", {b"version": b"1.2"}, b""),
    (b"MESSAGE", {b"ack": b"1", b"content-length": b"7"}, b"a\0b\n\nc\n"),
    (b"RECEIPT", {b"receipt-id": b"5"}, b""),
]


@pytest.mark.parametrize("size", [1, 2, 7, 50, len(STREAM)])
def test_frames_are_cut_right_in_any_chunks(size):
    """Bodies with NULs and blank lines, heart-beats between frames, first header wins."""
    reader = FrameReader()
    found = [
        frame
        for start in range(0, len(STREAM), size)
        for frame in reader.feed(STREAM[start : start + size])
    ]

    assert found == FRAMES


def test_a_length_that_does_not_fit_is_an_error():
    """A broker whose content-length is wrong is found out."""
    with pytest.raises(ValueError, match="NUL"):
        list(FrameReader().feed(b"MESSAGE\ncontent-length:1\n\nab\0"))


class EagerBroker(socketserver.BaseRequestHandler):
    """Answers CONNECT, and gives every SEND its receipt at once."""

    def handle(self) -> None:
        reader = FrameReader()
        while data := self.request.recv(65_536):
            for command, headers, _ in reader.feed(data):
                if command == b"CONNECT":
                    self.request.sendall(b"CONNECTED\nversion:1.2\n\n\0")
                else:
                    self.request.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers[b"receipt"])


@pytest.fixture
def eager_broker() -> Iterator[str]:
    """The address of a broker that confirms as fast as it can."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), EagerBroker) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_load_that_was_through_before_anybody_asked_is_through(eager_broker):
    """The thread that waits comes late: all confirms are there, and none is waited for again."""
    settings = LoadSettings(consumers=0, producers=2, count_max=20)
    with Load([eager_broker], settings) as load:
        load.wait_all_confirmed(5.0)
        load.wait_all_confirmed(0.0)

    assert load.ledger.confirmed_count == 40


def test_of_a_load_with_an_end_no_more_than_now_is_waited_for(eager_broker):
    """Whether so many more are left depends on who is faster: it is refused, not a race."""
    with (
        Load([eager_broker], LoadSettings(consumers=0, count_max=20)) as load,
        pytest.raises(AssertionError, match="an end"),
    ):
        load.wait_confirmed(20)


def test_a_load_without_an_end_is_waited_for_by_more_than_now(eager_broker):
    """What was confirmed before does not count; and that it is never through is said at once."""
    with Load([eager_broker], LoadSettings(consumers=0)) as load:
        load.wait_confirmed(20)
        before = load.ledger.confirmed_count
        load.wait_confirmed(20)
        with pytest.raises(AssertionError, match="without an end"):
            load.wait_all_confirmed()

    assert load.ledger.confirmed_count >= before + 20 >= 40


def test_a_broker_that_never_answers_is_given_up_sooner_than_one_that_falls_silent(eager_broker):
    """One that is stopped takes connections still, by its kernel, and answers none of them."""
    settings = LoadSettings(
        consumers=0, producers=1, count_max=20, silence_seconds=60.0, answer_seconds=0.05
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as stopped,
        Load([f"127.0.0.1:{stopped.getsockname()[1]}", eager_broker], settings) as load,
    ):
        load.wait_all_confirmed(20.0)

    assert load.ledger.confirmed_count == 20
