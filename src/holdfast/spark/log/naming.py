"""
What the records of a block do not say themselves: the names of queues, and of the cluster.

A record carries its queue's number. The name stands in the queue's declaration, which may be
earlier in the log or, once the log was cleaned, later; so it is learned on the way, told by the
source, and looked for in the log only when a number is still unknown, and no further than it is
found.

Invariants:
    Numbers are never used twice, so a name once known stays right.
    The log is searched at most once for the same unknown number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from holdfast.model.facts import TOPIC_MARK
from holdfast.model.records import QueueRecord
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord, whole_of
from holdfast.spark.log.record_table import RecordTable
from holdfast.store.record_codec import QUEUE, SUBSCRIPTION, TOPIC, decode_records

_NAMING: Final = np.array([QUEUE, TOPIC, SUBSCRIPTION], dtype=np.uint8)

CLUSTER_DIGITS: Final = 8
"""How much of the cluster's identity stands in a message id."""

Search = Callable[[set[int]], dict[int, str]]


class Naming:
    """Queue names by number, as far as they are known. Belongs to one reading task."""

    __slots__ = ("_search", "_unknown", "cluster_id", "names")

    def __init__(
        self,
        names: dict[int, str] | None = None,
        *,
        cluster_id: str = "",
        search: Search | None = None,
    ) -> None:
        """Begin with `names`; `search` goes through the log for some that are missing."""
        self.names = dict(names or {})
        self.cluster_id = cluster_id
        self._search = search
        self._unknown: set[int] = set()

    def learn(self, table: RecordTable) -> None:
        """Add the names of all queues that these records declare."""
        learn_names(table, self.names)

    def of(self, numbers: Iterable[int | None]) -> list[str | None]:
        """Return the names of queues by number; None where the log does not tell."""
        wanted = list(numbers)
        missing = {it for it in wanted if it is not None} - self.names.keys() - self._unknown
        if missing and self._search is not None:
            self.names = self._search(missing) | self.names
            self._unknown |= missing - self.names.keys()
        return [None if it is None else self.names.get(it) for it in wanted]


def learn_names(table: RecordTable, names: dict[int, str]) -> None:
    """Add the names of all queues, topics and subscriptions that these records declare."""
    rows = np.flatnonzero(np.isin(table.types, _NAMING))
    if not len(rows):
        return
    buffer = table.block.buffer
    ends = table.starts[rows] + 8 + table.lengths[rows]
    for start, end in zip(table.starts[rows].tolist(), ends.tolist(), strict=True):
        for record in decode_records(buffer[start:end]):
            number, name = declared_name(record, names)
            names[number] = name


def declared_name(record: object, names: dict[int, str]) -> tuple[int, str]:
    """Give number and name of what a record declares, by the names that are known."""
    if isinstance(record, TopicRecord):
        return record.topic_number, f"{TOPIC_MARK}{record.name}"
    if isinstance(record, SubscriptionRecord):
        topic = names.get(record.topic_number, f"{TOPIC_MARK}#{record.topic_number}")
        whole = whole_of(record.name)
        name = f"#{whole}" if whole else record.name  # Of a part: whose it is.
        return record.number, f"{topic}?subscription={record.client_id}:{name}"
    assert isinstance(record, QueueRecord), "it was looked for"
    return record.queue_number, record.name
