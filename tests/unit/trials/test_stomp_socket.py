"""The blocking client of the tests: what it reads is what was on the wire."""

from __future__ import annotations

import socket
import threading

from trials.clients.stomp_socket import ReceivedFrame, StompSocket


def test_a_frame_tells_whether_it_may_have_come_before():
    """Only `redelivered:true` says so."""
    assert ReceivedFrame("MESSAGE", {"redelivered": "true"}, b"").is_redelivered
    assert not ReceivedFrame("MESSAGE", {"redelivered": "false"}, b"").is_redelivered
    assert not ReceivedFrame("MESSAGE", {}, b"").is_redelivered


def test_a_queue_is_read_to_a_message_sent_now():
    """What comes before it is given, however late it comes; the message itself is not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with StompSocket(server.getsockname()[1]) as client, server.accept()[0] as broker:
            broker.sendall(b"MESSAGE\nmessage-id:1\n\none\0MESSAGE\nmessage-id:2\n\ntwo\0")
            answering = threading.Thread(target=send_back, args=(broker,))
            answering.start()
            found = client.read_queue("/queue/a")
            answering.join()

    assert [frame.body for frame in found] == [b"one", b"two"]


def send_back(broker: socket.socket) -> None:
    """Deliver what is sent, and then one message more."""
    head, _, body = broker.recv(1000).partition(b"\n\n")
    assert b"\ndestination:/queue/a\n" in head
    broker.sendall(b"MESSAGE\nmessage-id:3\n\n" + body + b"MESSAGE\nmessage-id:4\n\nlate\0")
