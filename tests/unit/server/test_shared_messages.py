"""
Large messages that several sockets have not taken are counted once.
"""

from __future__ import annotations

from holdfast.server.settings import ServerSettings

BODY = b"x" * 100_000
SIZE = len(BODY) + len(b"content-length:100000\n")
SUBSCRIBE = b"SUBSCRIBE\nid:s\ndestination:/topic/%b\n\n\0"
SEND = b"SEND\ndestination:/topic/%b\ncontent-length:%d\n\n%b\0"


def reading_slowly(node, topic: bytes = b"t"):
    """A subscriber whose socket takes nothing for now."""
    client = node.connect(SUBSCRIBE % topic)
    client.transport.take()
    client.transport.unsent = SIZE
    return client


def test_who_is_being_sent_a_large_message_is_not_closed_for_the_others(new_node) -> None:
    """
    64 readers of a topic with messages of 4 MB were 240 MB, and some of them closed.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=250_000))
    node.serve()
    readers = [reading_slowly(node) for _ in range(10)]
    node.connect(SEND % (b"t", len(BODY), BODY))
    node.turn()
    node.conductor.tick()
    held = node.conductor.held_memory
    assert not any(each.transport.is_closed for each in readers)
    assert (held.bytes, held.shared.bytes, held.unsent_bytes) == (SIZE, SIZE, 0)
    assert {held.shared.of(each) for each in readers} == {SIZE}
    for each in readers[1:]:
        each.connection_lost(None)
    node.turn()
    assert held.bytes == SIZE
    readers[0].transport.unsent = 0
    readers[0].resume_writing()
    assert held.bytes == 0
    assert not list(held.shared)


def test_who_is_always_a_little_behind_holds_no_more_than_that(new_node) -> None:
    """
    All it had ever been sent was kept for it, until it was closed for holding the most.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=5 * SIZE))
    node.serve()
    reader = reading_slowly(node)
    publisher = node.connect()
    held = node.conductor.held_memory
    for _ in range(20):
        publisher.data_received(SEND % (b"t", len(BODY), BODY))
        node.turn()
        node.conductor.tick()
        assert SIZE <= held.bytes <= 2 * SIZE
    assert not reader.transport.is_closed
    assert reader.written_bytes > 20 * SIZE


def test_messages_of_their_own_are_counted_each(new_node) -> None:
    """
    Whoever does not read them goes, as who does not read anything else.
    """
    node = new_node(settings=ServerSettings(held_bytes_max=250_000))
    node.serve()
    readers = [reading_slowly(node, b"%d" % each) for each in range(4)]
    for number in range(4):
        node.connect(SEND % (b"%d" % number, len(BODY), BODY))
        node.turn()
    assert node.conductor.held_memory.bytes == 4 * SIZE
    node.conductor.tick()
    assert sum(each.transport.is_closed for each in readers) == 2


def test_a_small_rest_is_nobodys(new_node) -> None:
    """
    A socket that has taken most of it is not asked how much of what is left it shares.
    """
    node = new_node(settings=ServerSettings())
    node.serve()
    reader = reading_slowly(node)
    node.connect(SEND % (b"t", len(BODY), BODY))
    node.turn()
    held = node.conductor.held_memory
    held.note_unsent(reader, SIZE + 10)
    assert (held.unsent_bytes, held.shared.bytes) == (10, SIZE)
    held.note_unsent(reader, 5_000)
    assert (held.unsent_bytes, held.shared.bytes) == (5_000, 0)
    node.conductor.role.end()
    assert held.bytes == 0
