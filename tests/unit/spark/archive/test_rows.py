"""Entries as archive rows, which give them again byte for byte."""

from __future__ import annotations

import pyarrow.compute as pc

from holdfast.journal.entry import FIRST_CHAIN
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord
from holdfast.spark.archive.entries import archived_facts, entries_of
from holdfast.spark.archive.rows import RECORDS, RangeFacts, block_rows
from holdfast.store.fact_blocks import PLACES, SKIPS
from trials.pipeline.written_log import EACH_FACT, knowing, message

SECOND = 1_000_000


def test_rows_give_the_same_entries_again(log) -> None:
    """
    Every kind of record comes back byte for byte, so a restored log is the log.
    """
    rows = block_rows(log.block(), RangeFacts())

    assert log.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))
    assert RECORDS == rows.schema


def test_facts_come_back(log) -> None:
    """
    Beside messages that have none, as bytes of their own: nothing of an entry may be lost.
    """
    log.add(*(knowing(message(1, n), name) for n, name in enumerate(EACH_FACT, 6)), message(1, 99))
    log.add(knowing(message(1, 100), *EACH_FACT))
    rows = block_rows(log.block(), RangeFacts())
    assert log.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))
    of_messages = rows.filter(pc.equal(rows.column("kind"), "message"))
    facts = archived_facts(of_messages)
    assert facts.keys() == {5, 6, 7, 8, 9, 10, 11, 13}
    assert facts[13] == MessageFacts(**EACH_FACT)
    without = block_rows(log.block(), RangeFacts(), with_content=False)
    packed = of_messages.column("record").drop_null().to_pylist()
    several = [each for each in packed if each[0] & (PLACES | SKIPS)]
    assert without.column("record").drop_null().to_pylist() == several
    assert len(several) == 3
    assert without.column("header_lines").null_count == without.num_rows


def test_messages_only(empty_log) -> None:
    """
    A block with nothing but messages takes the short way and gives the same.
    """
    only = empty_log
    for first in range(1, 90, 30):
        only.add(*(message(1, n, b"%d" % n) for n in range(first, first + 30)))

    rows = block_rows(only.block(), RangeFacts())

    assert only.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))


def test_facts_are_gathered_in_passing(log) -> None:
    """
    What the manifest needs is known without a second pass.
    """
    facts = RangeFacts()

    rows = block_rows(log.block(), facts)

    assert {1: "orders"} == facts.declared
    assert (5, rows.num_rows, 2, 8) == (
        facts.messages,
        facts.rows,
        facts.cleaned_through,
        facts.complete_from,
    )
    assert set() == facts.unknown


def test_a_queue_without_a_name_is_told(empty_log) -> None:
    """
    A message whose queue is declared elsewhere has no destination, and the job hears of it.
    """
    empty_log.add(message(1, 1))
    facts = RangeFacts()

    rows = block_rows(empty_log.block(), facts)

    assert ([None], {1}) == (rows.column("destination").to_pylist(), facts.unknown)


def test_what_is_said_of_a_subscription_has_its_number(empty_log) -> None:
    """
    Not the topic's, which stands before it; and topics and subscriptions have names like queues.
    """
    log = empty_log
    log.add(TopicRecord(2, "prices", 7, 1), SubscriptionRecord(3, 2, 0, "c", "mine"))
    log.add(SubscriptionAcknowledgeRecord(3, [8], 2), AcknowledgeRecord(1, [5]))
    log.add(DeleteQueueRecord(3, 2), CountedRecord(3, 2, [9], attempts=1))
    facts = RangeFacts()
    rows = block_rows(log.block(), facts)
    assert log.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))
    assert rows.column("queue_number").to_pylist() == [2, 3, 3, 1, 3, 3]
    assert facts.declared == {2: "topic://prices", 3: "topic://prices?subscription=c:mine"}
    assert rows.column("sequences").to_pylist() == [None, None, [8], [5], None, [9]]
