"""
An entry's records in steps: no step touches much more than any other.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.lasting.record_steps import SEQUENCES_PER_RECORD, record_steps
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_index import TopicIndex, bitmap_of
from holdfast.broker.lasting.view_index import ViewIndex
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    MessageRecord,
    PurgeRecord,
    Record,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from tests.unit.broker.lasting.topic_log import TopicLog, step


def message(sequence: int) -> MessageRecord:
    return MessageRecord(1, sequence, b"", b"", 0)


def test_records_go_in_steps_of_so_many() -> None:
    """
    Each step knows the number of its first record.
    """
    records: list[Record] = [message(number) for number in range(7)]
    steps = list(record_steps(100, iter(records), 3, {}))
    assert steps == [(100, records[:3]), (103, records[3:6]), (106, records[6:])]
    assert list(record_steps(100, [], 3, {})) == []


def test_few_acknowledgements_are_cut_by_nobody() -> None:
    """
    Nor does one of nothing get lost: who counts records counts it.
    """
    records = [message(1), AcknowledgeRecord(1, [1, 2]), AcknowledgeRecord(1, [])]
    assert list(record_steps(5, records, 3, {})) == [(5, records)]


def test_many_acknowledgements_are_cut_under_their_own_number() -> None:
    """
    In their order, whether one record names very many messages or many records together do.
    """
    most = 2 * SEQUENCES_PER_RECORD
    many = list(range(1, 10 * most + 2))
    records: list[Record] = [
        AcknowledgeRecord(1, many),
        message(1),
        DeadLetterRecord(2, many),
        AcknowledgeRecord(3, []),
        CleanedRecord(7),
    ]
    found: dict[int, list[Record]] = {}
    for number, some in record_steps(50, records, 2, {}):
        sizes = [len(getattr(record, "sequences", ())) for record in some]
        assert sum(sizes) <= most
        found.setdefault(number, []).extend(some)
    assert sorted(found) == [50, 51, 52, 53, 54]
    for number, kind, queue in ((50, AcknowledgeRecord, 1), (52, DeadLetterRecord, 2)):
        assert {(type(each), each.queue_number) for each in found[number]} == {(kind, queue)}
        assert [key for each in found[number] for key in each.sequences] == many
    assert found[51] == [records[1]]
    assert len(found[53]) == 1
    assert found[54] == [records[4]]


def topic_of(count: int, message_count: int = 0) -> BrokerState:
    """The state of a topic with so many subscriptions."""
    state = BrokerState(BrokerSettings())
    records: list[Record] = [TopicRecord(1, "t")]
    records += [SubscriptionRecord(10 + each, 1, each, "c", f"s{each}") for each in range(count)]
    records += [message(sequence) for sequence in range(1, message_count + 1)]
    state.apply(1, records, 1)
    return state


def skipped(sequence: int, slots: range) -> MessageRecord:
    record = message(sequence)
    record.facts = MessageFacts(skips=bitmap_of(slots))
    return record


def touched_by_step(state: BrokerState, records: list[Record], monkeypatch) -> list[int]:
    """Apply records in steps as the loop does; how often each told a subscription of something."""
    told = 0
    remove, pass_over, count_out = ViewIndex.remove, ViewIndex.pass_over, TopicIndex.count_out

    def removed(view: ViewIndex, sequences) -> list[int]:
        nonlocal told
        told += 1
        return remove(view, sequences)

    def passed_over(view: ViewIndex, sequence: int, *args) -> None:
        nonlocal told
        told += 1
        pass_over(view, sequence, *args)

    def counted_out(topic: TopicIndex, number: int, missing=None) -> None:
        nonlocal told
        told += 1
        count_out(topic, number, missing)

    monkeypatch.setattr(ViewIndex, "remove", removed)
    monkeypatch.setattr(ViewIndex, "pass_over", passed_over)
    monkeypatch.setattr(TopicIndex, "count_out", counted_out)
    seen = []
    for number, some in record_steps(1_000_000, records, 512, state.queues):
        told = 0
        state.apply(number, some, 2)
        seen.append(told)
    return seen


def test_a_message_counts_for_each_that_does_not_get_it(monkeypatch) -> None:
    """
    A COMMIT of 500 whom none of 900 wants went in one step of 2 s, on every node.
    """
    state = topic_of(900)
    records: list[Record] = [skipped(sequence, range(900)) for sequence in range(1, 501)]
    seen = touched_by_step(state, records, monkeypatch)
    assert sum(seen) == 500 * 900
    assert max(seen) <= 900  # One message alone.
    few: list[Record] = [skipped(sequence, range(8)) for sequence in range(501, 1001)]
    seen = touched_by_step(state, few, monkeypatch)
    assert 500 * 8 <= sum(seen) <= 500 * 8 + 8  # Each leaves the first chunk when it is full.
    assert max(seen) <= 8 * 512 // 3 + 8
    assert len(seen) < 12


def test_one_that_is_cut_and_names_no_message_is_applied_all_the_same(monkeypatch) -> None:
    """To meet the subscription that it is of may take long alone."""
    where = "holdfast.broker.lasting.record_steps"
    monkeypatch.setattr(f"{where}.weight_of", lambda _record, _queues: 1 << 30)
    monkeypatch.setattr(f"{where}.weight_of_all", lambda _records, _queues: 1 << 30)
    steps = [*record_steps(5, [AcknowledgeRecord(1, []), DeadLetterRecord(2, [])], 2, {})]
    assert [(number, len(some)) for number, some in steps] == [(5, 1), (6, 1)]
    ((_, (first,)), (_, (second,))) = steps
    assert isinstance(first, AcknowledgeRecord)
    assert isinstance(second, DeadLetterRecord)
    assert (first.queue_number, second.queue_number) == (1, 2)


def test_the_end_of_many_subscriptions_goes_in_steps(monkeypatch) -> None:
    """
    256 UNSUBSCRIBEs read at once were 512 records, and one step of half a second.
    """
    state = topic_of(257, 400)
    twin = topic_of(257, 400)
    records: list[Record] = []
    for number in range(10, 266):
        records += [PurgeRecord(number, 400, 1), DeleteQueueRecord(number, 1)]
    seen = touched_by_step(state, records, monkeypatch)
    assert len(seen) >= 64
    assert max(seen) <= 3 * 2 * 3
    twin.apply(1_000_000, records, 2)
    assert digest_of(twin) == digest_of(state)
    assert state.queues[266].index.live_count == 400


def test_a_purge_of_what_a_selector_has_begun_is_cut(monkeypatch) -> None:
    """
    Its 64 chunks took 11 ms; each piece is a purge of some of them, under the number of the whole.
    """
    count = 64 * 512
    state, twin = topic_of(2), topic_of(2)
    records: list[Record] = [
        skipped(each, range(1)) if each & 1 else message(each) for each in range(1, count + 1)
    ]
    purge = PurgeRecord(10, count, 1)
    for each in (state, twin):
        each.apply(1_000, records, 1)
    steps = []
    for number, some in record_steps(5, [purge], 512, state.queues):
        state.apply(number, some, 2)
        steps.append((number, some))
    assert {number for number, _ in steps} == {5}
    borders = [record.through_sequence for _, (record,) in steps]
    assert len(borders) > 7
    assert borders == sorted(set(borders))
    assert borders[-1] == count
    assert all(b - a <= 8 * 512 for a, b in zip([0, *borders], borders, strict=False))
    twin.apply(5, [purge], 2)
    assert digest_of(twin) == digest_of(state)
    assert state.acknowledged_total == twin.acknowledged_total
    assert state.queues[10].index.live_count == 0
    assert state.queues[11].index.live_count == count


def test_what_is_long_leaves_what_stands_beside_it_together() -> None:
    """
    Plain messages are applied as a run, for a tenth of what each takes alone.
    """
    state = topic_of(1500)
    records: list[Record] = [message(sequence) for sequence in range(1, 250)]
    records += [skipped(250, range(1500)), *(message(sequence) for sequence in range(251, 500))]
    steps = [(number, len(some)) for number, some in record_steps(7, records, 512, state.queues)]
    assert steps == [(7, 249), (7 + 249, 1), (7 + 250, 249)]


@pytest.mark.parametrize("seed", range(20))
def test_in_steps_it_comes_to_the_same(seed: int) -> None:
    """
    Whatever is done with topics, in steps as short as can be, and who begins with what is left.
    """
    chance = random.Random(seed)
    log = TopicLog()
    for _ in range(60):
        step(log, chance)
    state = BrokerState(BrokerSettings())
    piece_count = 0
    for first, records in log.entries:
        for number, some in record_steps(first, records, chance.choice((1, 8, 64)), state.queues):
            state.apply(number, some, first)
            piece_count += 1
    log.check(state)
    assert piece_count > 2 * len(log.entries)
