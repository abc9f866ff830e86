"""
What a dump of the log says of stored topics and durable subscriptions.

Each record becomes the rest of a row, beside what all rows begin with (`log_rows`): the names of
what it says are those of its fields, so that a line of JSON can be picked apart by programs.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)

TopicRecords = TopicRecord | SubscriptionRecord | DetachedRecord | CountedRecord
"""Those that this speaks of."""

_SUBSCRIPTION: Final = (
    *("number", "topic_number", "slot", "client_id", "name", "selector"),
    *("first_sequence", "dispatch_mark"),
)


def topic_row(record: TopicRecords) -> tuple[str, dict[str, Any]]:
    """Give the record's kind and its own fields."""
    if isinstance(record, TopicRecord):
        count = record.subscription_count
        fields = {"number": record.topic_number, "name": record.name}
        return "topic", fields | {"next_sequence": record.next_sequence, "subscriptions": count}
    if isinstance(record, DetachedRecord):
        return "detached", {"number": record.number, "at_ms": record.at_ms or None}
    if isinstance(record, CountedRecord):
        counts = {"attempts": record.attempts, "failures": record.failures}
        return "counted", counts | {"due_ms": record.due_ms or None, "sequences": record.sequences}
    found = {name: getattr(record, name) for name in _SUBSCRIPTION}
    found["selector"] = record.selector or None
    no_local = {"no_local": record.has_no_local, "detached_at_ms": record.detached_at or None}
    owner = {"owner": record.owner.name, "owner_life": record.owner.life or None}
    return "subscription", found | no_local | (owner if record.owner.name else {})
