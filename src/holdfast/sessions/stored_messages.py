"""
What a stored message says to operators: its headers as its consumers see them, and to a selector.

Headers are stored in the encoding of the protocol that they came by, today STOMP's alone; whoever
shows messages asks here and knows no protocol.
"""

from __future__ import annotations

from holdfast.broker.serving.dead_letters import with_origin
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.mapping import read_lines
from holdfast.sessions.selection import Selection, Selections


def headers_of(message: MessageRecord) -> dict[str, str]:
    """Give its headers, with what is said of the way that it came."""
    return read_lines(_lines(message))


def selection_of(text: str, queue: str, identity: str) -> Selection:
    """
    Give what chooses messages of a queue, whose ids all begin so.

    Raises:
        SelectorError: The selector cannot be read.
    """
    return Selections().read(text, f"queue://{queue}", identity)


def is_chosen(
    selection: Selection, message: MessageRecord, sequence: int, redelivered: int = 0
) -> bool:
    """Whether the condition is true of a message; `redelivered`: which delivery the next one is."""
    return selection.is_true_of(selection.values_of(sequence, message, redelivered))


def _lines(message: MessageRecord) -> bytes:
    assert message.headers is not None, "it was read with its content"
    facts = message.facts
    if facts is None or facts.origin is None:
        return message.headers
    return with_origin(message.headers, facts)
