"""
A message, or a durable subscription, as a database shows it to people.

Owned by the loop.
"""

from __future__ import annotations

import json
from typing import Final, Protocol

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.moved import ReadsRecords, read_as_it_stands
from holdfast.leases.projection import MessageRow, SubscriptionRow
from holdfast.model.facts import PRIORITY_DEFAULT, PRIORITY_MAX, TOPIC_MARK
from holdfast.model.limits import KiB
from holdfast.model.records import MessageRecord
from holdfast.model.topic_records import whole_of
from holdfast.sessions.stored_messages import headers_of

HEADERS_MAX: Final = 64 * KiB
"""Longer ones, as JSON, are not shown."""
BODY_BYTES_MAX: Final = 256 * KiB
"""Nor longer bodies: an append must not wait for them."""
_QUEUE_MARK: Final = "queue://"


class Source(ReadsRecords, Protocol):
    """Where the log is read."""

    @property
    def applied_index(self) -> int: ...
    def entry_index(self, record_number: int) -> int: ...


def container_of(lasting: LastingQueue) -> str:
    """Give what ActiveMQ calls a queue or topic in its tables."""
    mark = TOPIC_MARK if isinstance(lasting, LastingTopic) else _QUEUE_MARK
    return _text(f"{mark}{lasting.name}")


def message_row(
    source: Source, lasting: LastingQueue, sequence: int, cluster: str, *, with_body: bool
) -> MessageRow:
    """
    Give what is told of a message that lives on a queue or topic.

    Raises:
        StoreError: It cannot be read now.
    """
    index = lasting.index
    number = index.record_number(sequence)
    message = read_as_it_stands(source, number, lasting.number, index, sequence, cluster)
    headers = headers_of(message)
    written = _text(json.dumps(headers, ensure_ascii=False))
    return MessageRow(
        queue_number=lasting.number,
        sequence=sequence,
        idx=source.entry_index(number),
        container=container_of(lasting),
        message_id=f"ID:{cluster}-{lasting.number}-{sequence}",
        stored_at=message.stored_at // 1000,
        expires_at=index.expires_ms(sequence),
        priority=_priority(headers),
        size=message.size,
        headers=written if len(written) <= HEADERS_MAX else None,
        body=_body(message) if with_body else None,
        as_of_index=source.applied_index,
    )


def subscription_row(lasting: LastingSubscription, name: str, as_of_index: int) -> SubscriptionRow:
    """
    Give what is told of a durable subscription.

    Args:
        name: As its client knows it: a part of one of a wildcard has none of its own.
    """
    first = lasting.index.first()
    return SubscriptionRow(
        number=lasting.number,
        container=container_of(lasting.topic),
        client_id=_text(lasting.client_id),
        name=_text(name),
        selector=_text(lasting.selector),
        depth=lasting.index.live_count,
        last_acked=(first or lasting.next_sequence) - 1,
        as_of_index=as_of_index,
    )


def whole_number(lasting: LastingSubscription) -> int:
    """Give the number of the subscription that its client knows."""
    return whole_of(lasting.name) or lasting.number


def _priority(headers: dict[str, str]) -> int:
    """As its sender said it; the broker notes it only where queues go by it."""
    said = headers.get("priority", "")
    is_one = len(said) == 1 and "0" <= said <= str(PRIORITY_MAX)
    return int(said) if is_one else PRIORITY_DEFAULT


def _body(message: MessageRecord) -> bytes | None:
    body = message.body
    return None if body is None or len(body) > BODY_BYTES_MAX else bytes(body)


def _text(text: str) -> str:
    """What every database takes: PostgreSQL's texts have no character 0."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
