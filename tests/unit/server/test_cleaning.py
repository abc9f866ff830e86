"""
The cleaner: when it starts, how fast it goes, what stops it, and that nothing is lost by it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError, MembershipError
from holdfast.model.facts import Cause
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
)
from holdfast.server import cleaning
from holdfast.server.settings import ServerSettings


@pytest.fixture
def busy(new_node, send, subscribe):
    """A node with twelve entries of which two messages live, and a cleaner without limits."""
    node = new_node(settings=ServerSettings(clean_segment_count_min=0))
    node.serve()
    producer = node.connect()
    for number in range(10):
        producer.data_received(send(b"%d" % number * 100))
        node.settle()
    consumer = node.connect(subscribe)
    for key in range(1, 11):
        if key not in {1, 4}:
            consumer.data_received(b"ACK\nid:1-%d\n\n\0" % key)
    node.settle()
    node.producer = producer
    node.consumer = consumer
    return node


def clean(node, steps: int = 1) -> None:
    for _ in range(steps):
        node.clock.now += 1
        node.conductor.cleaner.step(node.clock.now)
        node.settle()


def kept_state(node) -> BrokerState:
    """Give the state of a node that has only what is kept of the log."""
    state = BrokerState(node.broker.settings)
    for entry in node.store.entries[node.store.first_index - 1 :]:
        state.apply(entry.first_record, node.store.decode(entry), entry.timestamp, entry.term)
    return state


def test_the_log_shrinks_to_what_lives(busy) -> None:
    """
    Segment by segment, and a node that starts from what is kept knows the same.
    """
    digests = set()
    for _ in range(12):
        clean(busy)
        assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)
        digests.add(busy.store.first_index)
    assert len(digests) >= 5
    assert busy.broker.state.live_count() == 2
    assert busy.store.first_index > 10
    assert busy.conductor.cleaner.rewritten_bytes >= 200
    assert busy.store.kept_membership


def test_a_live_log_is_left_alone(busy) -> None:
    """
    While little is dead there is nothing to gain, and some segments are always kept.
    """
    cleaner = busy.conductor.cleaner
    cleaner.settings = ServerSettings(clean_segment_count_min=50)
    clean(busy, 3)
    assert busy.store.first_index == 1
    cleaner.settings = ServerSettings(clean_segment_count_min=0, clean_dead_ratio=0.95)
    clean(busy, 3)
    assert busy.store.first_index == 1


def test_low_space_cleans_harder(busy) -> None:
    """
    Then no segment is kept for comfort and little is enough.
    """
    busy.conductor.cleaner.settings = ServerSettings(clean_segment_count_min=50)
    busy.store.is_low = True
    clean(busy, 3)
    assert busy.store.first_index > 1


@pytest.mark.parametrize("is_copy", [False, True])
def test_low_space_for_a_copy_costs_no_reader_its_hold(busy, is_copy: bool) -> None:
    """
    The log itself has room: it is cleaned harder, and nobody is left behind for that.
    """
    busy.broker.receipts.add_records([HoldRecord("archive", 1, 1 << 20)])
    busy.settle()
    busy.store.is_low, busy.store.is_copy = True, is_copy
    busy.conductor.cleaner.settings = ServerSettings(clean_segment_count_min=50)
    clean(busy, 3)
    assert (busy.store.first_index == 1) is is_copy


def test_a_segment_that_is_not_applied_waits(busy) -> None:
    """
    The index does not know yet what lives in it.
    """
    busy.store.applied_index = 1
    busy.conductor.cleaner.step(busy.clock.now + 1)
    assert busy.conductor.cleaner.next_index == 0


def test_it_looks_again_after_a_pause(busy) -> None:
    """
    A look sums over all segments and queues: not at each tick, when the last one found nothing.
    """
    cleaner = busy.conductor.cleaner
    cleaner.settings = ServerSettings(clean_segment_count_min=50, clean_look_seconds=1.0)
    cleaner.step(busy.clock.now + 1)
    seen = busy.store.look_count
    for tick in range(1, 100):
        cleaner.step(busy.clock.now + 1 + tick / 100)
    assert busy.store.look_count == seen
    cleaner.step(busy.clock.now + 2.1)
    assert busy.store.look_count == seen + 1


def test_a_new_segment_ends_the_pause(busy, send) -> None:
    """
    As does one that was dropped, so that a long dead log goes as fast as the pace allows.
    """
    cleaner = busy.conductor.cleaner
    cleaner.settings = ServerSettings(clean_segment_count_min=50)
    cleaner.step(busy.clock.now)
    seen = busy.store.look_count
    for body in (b"x", b"y"):
        busy.producer.data_received(send(body))
        busy.settle()
    cleaner.step(busy.clock.now)
    assert busy.store.look_count > seen
    seen = busy.store.look_count
    busy.store.first_index = 3
    cleaner.step(busy.clock.now)
    assert busy.store.look_count == seen + 1


def test_low_space_ends_the_pause(busy) -> None:
    """
    Then there is no second to lose.
    """
    cleaner = busy.conductor.cleaner
    cleaner.settings = ServerSettings(clean_segment_count_min=50)
    cleaner.step(busy.clock.now)
    busy.store.is_low = True
    cleaner.step(busy.clock.now)
    assert cleaner.through_index == 2


def test_a_long_dead_log_goes_without_a_pause(busy) -> None:
    """
    One segment after the other while the clock stands still: only content costs pace.
    """
    cleaner = busy.conductor.cleaner
    cleaner.budget_bytes = 1 << 20
    cleaner.step(busy.clock.now)
    for _ in range(8):
        busy.settle()
        cleaner.step(busy.clock.now)
    assert busy.store.first_index > 5


def test_the_pace_is_bounded(busy) -> None:
    """
    Content written again per second; it goes on where it stopped.
    """
    cleaner = busy.conductor.cleaner
    cleaner.settings = ServerSettings(clean_segment_count_min=0, clean_bytes_per_second=40)
    cleaner.refilled_at = busy.clock.now
    clean(busy)
    assert busy.store.first_index == 1
    assert cleaner.budget_bytes < 0
    clean(busy, 12)
    assert busy.store.first_index > 1


def test_traffic_goes_first(busy) -> None:
    """
    While much is uncommitted the cleaner waits.
    """
    busy.broker.receipts.uncommitted_bytes = busy.conductor.settings.uncommitted_bytes_max
    busy.conductor.cleaner.step(busy.clock.now + 1)
    assert not busy.broker.receipts.has_batch()
    busy.broker.receipts.uncommitted_bytes = 0


def test_it_waits_while_very_much_is_being_acknowledged(busy, monkeypatch) -> None:
    """
    It would have to look through all of that: with 600,000 a step took 90 ms.
    """
    monkeypatch.setattr(cleaning, "_SETTLING_MAX", 0)
    busy.consumer.data_received(b"ACK\nid:1-4\nreceipt:r\n\n\0")
    busy.turn()
    entries = len(busy.store.entries)
    busy.conductor.cleaner.step(busy.clock.now + 1)
    assert busy.conductor.cleaner.next_index
    busy.turn()
    assert len(busy.store.entries) == entries
    clean(busy, 12)
    assert busy.store.first_index > 10
    assert busy.broker.state.live_count() == 1


def test_a_step_asks_only_for_what_it_found_alive(busy, monkeypatch) -> None:
    """
    However many others are being acknowledged, and none of them is noted.
    """
    asked = []

    def settling(receipts, wanted):
        asked.append(wanted)
        return real(receipts, wanted)

    real = Receipts.settling
    monkeypatch.setattr(Receipts, "settling", settling)
    clean(busy, 12)
    assert {1, 4} == set.union(*(wanted[1] for wanted in asked))


def test_acknowledged_while_it_is_written_again(busy) -> None:
    """
    The acknowledgement stands behind the copy, so it ends that too.
    """
    busy.clock.now += 1
    busy.conductor.cleaner.step(busy.clock.now)
    busy.consumer.data_received(b"ACK\nid:1-1\n\n\0")
    busy.settle()
    clean(busy, 8)
    assert busy.broker.state.live_count() == 1
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


def entry_of(node, key: int) -> int:
    """The entry that holds a message of the one queue."""
    record = next(iter(node.broker.state.queues.values())).index.record_number(key)
    entries = node.store.entries
    return next(it.index for it in entries if it.first_record <= record < it.next_record)


def test_damage_that_holds_what_lives_stops_the_cleaner_until_it_is_repaired(busy) -> None:
    """
    What cannot be read cannot be written again; the segment stays, and a repair lets it go on.
    """
    busy.store.damaged = {entry_of(busy, 1)}
    clean(busy, 3)
    assert busy.store.first_index == 1
    assert busy.store.damaged == {error.index for error in busy.store.reported}
    assert {"q": 1} == busy.conductor.cleaner.damage.needed
    busy.store.damaged.clear()
    clean(busy, 80)
    assert busy.store.first_index > 2
    assert {} == busy.conductor.cleaner.damage.needed
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


@pytest.mark.parametrize("count", [1, 3])
def test_damage_in_which_nothing_lives_is_passed(busy, count: int) -> None:
    """
    A single node has no peer to repair it from: one rotten entry would stop cleaning for ever.

    What had its home there is carried on as ever, though the last entry of a segment is damaged.
    """
    first = entry_of(busy, 4) + 1
    busy.store.damaged = set(range(first, first + count))
    clean(busy, 12)
    assert busy.store.first_index > first + count
    assert busy.broker.state.live_count() == 2
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)
    assert {} == busy.conductor.cleaner.damage.needed


def test_what_is_settled_meanwhile_needs_its_damaged_entry_no_more(busy) -> None:
    """
    An operator who is told the queue purges it; the cleaner looks again by and by.
    """
    busy.store.damaged = {entry_of(busy, 1)}
    clean(busy, 3)
    assert {"q": 1} == busy.conductor.cleaner.damage.needed
    busy.consumer.data_received(b"ACK\nid:1-1\n\n\0")
    busy.settle()
    clean(busy, 80)
    assert busy.store.first_index > 2
    assert {} == busy.conductor.cleaner.damage.needed
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


def test_what_only_cannot_be_read_now_is_not_passed(busy, monkeypatch) -> None:
    """
    Without a descriptor nothing was read: that is no damage, and what lives there is not known.
    """
    read = busy.store.entry

    def entry(index: int):
        if index == 2:
            raise CorruptEntryError("it cannot be read now", index=index)
        return read(index)

    monkeypatch.setattr(busy.store, "entry", entry)
    clean(busy, 5)
    assert busy.store.first_index == 1
    monkeypatch.setattr(busy.store, "entry", read)
    clean(busy, 12)
    assert busy.store.first_index > 2
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


def test_a_change_of_members_makes_it_wait(busy) -> None:
    """
    The entry with the members must not go before it is written again.
    """
    busy.store.membership_error = MembershipError("a change is under way")
    clean(busy, 2)
    assert busy.store.first_index == 1
    busy.store.membership_error = None
    clean(busy)
    assert busy.store.first_index > 1


def test_a_new_leadership_starts_again(busy) -> None:
    """
    What was half done may not have been committed.
    """
    cleaner = busy.conductor.cleaner
    busy.clock.now += 1
    cleaner.step(busy.clock.now)
    busy.store.is_serving = False
    busy.turn()
    assert (cleaner.next_index, cleaner.through_index) == (0, 0)
    busy.store.is_serving = True
    busy.settle()
    clean(busy, 3)
    assert busy.store.first_index > 1
    assert busy.broker.state.live_count() == 2


def test_a_reader_of_the_log_keeps_it_up_to_its_bound(busy) -> None:
    """
    Within its bound nothing it has not taken goes; beyond it is left behind, and told so.
    """
    replier = busy.producer.session
    busy.broker.keep_log(HoldRecord("archive", 1, 1 << 30), replier, b"h")
    busy.settle()
    clean(busy, 3)
    assert busy.store.first_index == 1
    busy.broker.keep_log(HoldRecord("archive", 1, 10), replier, b"h")
    busy.settle()
    clean(busy, 3)
    assert busy.store.first_index > 2
    hold = busy.broker.state.holds["archive"]
    assert hold.lost_through >= 2
    assert hold.index == hold.lost_through + 1


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_hold_set_while_a_segment_is_gone_through_keeps_it(busy, is_committed: bool) -> None:
    """
    Its reader was told that it has it; on its way to the log it counts as well.
    """
    cleaner = busy.conductor.cleaner
    usual = cleaner.settings
    cleaner.settings = replace(usual, clean_bytes_per_second=0)
    cleaner.step(busy.clock.now)
    assert cleaner.next_index == 1
    assert cleaner.leaving_through == 0
    cleaner.settings = usual
    busy.broker.keep_log(HoldRecord("archive", 1, 1 << 30), busy.producer.session, b"h")
    if is_committed:
        busy.settle()
    clean(busy, 5)
    assert busy.store.first_index == 1
    busy.broker.keep_log(HoldRecord("archive", 0, 0), busy.producer.session, b"h")
    busy.settle()
    clean(busy, 5)
    assert busy.store.first_index > 1
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


def test_what_is_to_go_is_known_before_it_goes(busy) -> None:
    """
    So that no reader is promised it meanwhile; who leads later knows it from the log.
    """
    cleaner = busy.conductor.cleaner
    for _ in range(3):
        busy.clock.now += 1
        cleaner.step(busy.clock.now)
    assert cleaner.leaving_through == 2
    assert busy.store.first_index == 1
    busy.settle()
    cleaner.stop()
    assert cleaner.leaving_through == 2


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_segment_that_goes_while_it_is_read_is_left(busy, is_damaged: bool) -> None:
    """
    A record of an earlier leadership lets it go, which a restarted node learns as it leads.
    """
    cleaner = busy.conductor.cleaner
    if is_damaged:
        busy.store.damaged = {1}
    busy.clock.now += 0.02  # So little may be written that it does not come to the end.
    cleaner.step(busy.clock.now)
    if not is_damaged:
        cleaner.next_index, cleaner.through_index, cleaner.records = 2, 2, None
    assert 0 < cleaner.next_index <= 2
    busy.store.first_index = 3
    clean(busy, 40)
    assert busy.store.first_index > 3
    assert not cleaner.damage.is_looking


def test_a_reader_over_its_bound_loses_nothing_that_another_one_keeps(busy) -> None:
    """
    It is told of a loss when there is one, not when a bound is reached.
    """
    replier = busy.producer.session
    busy.broker.keep_log(HoldRecord("archive", 1, 10), replier, b"h")
    busy.broker.keep_log(HoldRecord("report", 1, 1 << 30), replier, b"h")
    busy.settle()
    clean(busy, 3)
    assert busy.store.first_index == 1
    assert busy.broker.state.holds["archive"].lost_through == 0
    assert busy.broker.state.holds["archive"].index == 1


def test_what_is_cleaned_is_said_in_the_log(busy) -> None:
    """
    Every node drops the segment when it has that record.
    """
    clean(busy)
    records = [r for e in busy.store.entries for r in busy.store.decode(e)]
    assert [r.through_index for r in records if isinstance(r, CleanedRecord)] == [2]


@pytest.fixture
def lively(new_node, send):
    """A node whose log is all alive, in entries that cost more than their messages."""
    settings = ServerSettings(
        clean_segment_count_min=0, clean_dead_ratio=0.1, clean_bytes_per_second=100
    )
    node = new_node(settings=settings)
    node.serve()
    producer = node.connect()
    for number in range(20):
        producer.data_received(send(b"%d" % number))
        node.settle()
    node.producer = producer
    return node


def test_a_log_that_is_all_alive_is_not_written_again_for_ever(lively) -> None:
    """
    What entries cost beside their messages looks dead, and each round makes it anew.
    """
    clean(lively, 200)
    once = lively.conductor.cleaner.rewritten_bytes
    length = len(lively.store.entries)
    clean(lively, 400)
    assert lively.conductor.cleaner.rewritten_bytes == once
    assert len(lively.store.entries) == length
    assert lively.broker.state.live_count() == 20


def test_it_begins_again_when_something_has_died(lively, subscribe) -> None:
    """
    A segment's worth more than what could not be freed.
    """
    clean(lively, 200)
    first = lively.store.first_index
    consumer = lively.connect(subscribe)
    for key in range(1, 16):
        consumer.data_received(b"ACK\nid:1-%d\n\n\0" % key)
    lively.settle()
    clean(lively, 100)
    assert lively.store.first_index > first
    assert lively.broker.state.live_count() == 5
    assert digest_of(kept_state(lively)) == digest_of(lively.broker.state)


def test_a_disk_full_of_what_lives_is_told(lively) -> None:
    """
    Once it is low and a round freed nothing; it ends with the lack of space.
    """
    cleaner = lively.conductor.cleaner
    clean(lively, 200)
    assert not cleaner.is_log_full
    lively.store.is_low = True
    clean(lively, 100)
    assert cleaner.is_log_full
    lively.store.is_low = False
    clean(lively, 2)
    assert not cleaner.is_log_full


def test_a_step_is_bounded_whatever_an_entry_holds(busy) -> None:
    """
    An entry of ten thousand records is gone through in pieces.
    """
    busy.broker.receipts.add_records([QueueRecord(1, "q", 11, 0)] * 10_000)
    busy.settle()
    cleaner = busy.conductor.cleaner
    busy.broker.receipts.add_records([CleanedRecord(len(busy.store.entries) // 2 * 2 - 2)])
    busy.settle()
    steps = 0
    while busy.store.entries[cleaner.next_index - 1].record_count < 10_000:
        clean(busy)
        steps += 1
        assert steps < 20
    at = cleaner.next_index
    for _ in range(4):
        assert cleaner.next_index == at
        assert cleaner.records is not None
        clean(busy)
    clean(busy, 2)
    assert cleaner.next_index != at


def test_producers_are_carried_on_in_pieces(busy) -> None:
    """
    One entry with all of them would stop every node for as long as it takes.
    """
    busy.conductor.cleaner.settings = ServerSettings(clean_segment_count_min=0, clean_dead_ratio=0)
    busy.broker.receipts.add_records([ProducerRecord(f"p{n}", 1, 0) for n in range(5_000)])
    busy.settle()
    before = len(busy.store.entries)
    clean(busy, 100)
    entries = busy.store.entries[before:]
    counts = [
        sum(type(record) is ProducerRecord for record in busy.store.decode(entry))
        for entry in entries
    ]
    assert sum(counts) >= 5_000
    assert max(counts) <= 2_000
    assert digest_of(kept_state(busy)) == digest_of(busy.broker.state)


@pytest.fixture
def half_dead(new_node, send):
    """A node whose first entry has 2000 messages of which every other one lives."""
    node = new_node(settings=ServerSettings(clean_segment_count_min=0))
    node.serve()
    node.connect(b"".join(send(b"%d" % number) for number in range(2_000)))
    node.settle()
    for body in (b"y", b"z"):
        node.connect(send(body * 90_000))
        node.settle()
    queue = node.broker.queue("q")
    node.broker.receipts.add_records(
        [AcknowledgeRecord(queue.number, [*range(1, 2_001, 2), 2_001, 2_002])]
    )
    node.settle()
    assert node.store.entries[0].record_count > 2_000
    return node


def copied(node) -> int:
    """Give how many messages were written again."""
    return sum(
        isinstance(record, MessageRecord) and record.rewritten
        for entry in node.store.entries
        for record in node.store.decode(entry)
    )


def test_a_step_ends_when_its_time_is_over(half_dead) -> None:
    """
    Two thousand messages looked at in one took 10 ms and more; all that live come in the end.
    """
    seen = [0]
    while half_dead.store.first_index == 1:
        half_dead.clock.now += 1
        half_dead.conductor.cleaner.step(half_dead.clock.now, lambda: True)
        half_dead.settle()
        seen.append(copied(half_dead))
    assert seen[-1] == 1_000
    assert max(after - before for before, after in pairwise(seen)) <= 100
    assert digest_of(kept_state(half_dead)) == digest_of(half_dead.broker.state)


def test_producers_are_looked_through_as_far_as_the_time_goes(new_node) -> None:
    """
    Five thousand at once took 5 ms and more.
    """
    node = new_node(broker=BrokerSettings(producer_count_max=100))
    node.serve()
    node.broker.receipts.add_records(
        [ProducerRecord(f"p{number}", 1, number) for number in range(9_000)]
    )
    node.settle()
    limit = node.conductor.cleaner.producer_limit
    looked_at = []
    for is_over in (True, True, False):
        node.conductor.cleaner.step(node.clock.now, lambda answer=is_over: answer)
        looked_at.append(sum(map(len, limit._moments)))
    assert looked_at[0] == 0
    assert 0 < looked_at[1] <= 1_000
    assert limit._last_moment is not None


def test_a_step_without_time_goes_through_some_small_entries(new_node, send) -> None:
    """
    With one at a time cleaning fell behind what traffic and itself add to the log.
    """
    node = new_node(settings=ServerSettings(clean_segment_count_min=0))
    node.serve()
    node.store.oldest_segment = lambda: SimpleNamespace(base_index=1, last_index=60)
    producer = node.connect()
    for _ in range(60):
        producer.data_received(send(b"x"))
        node.settle()
    node.broker.purge("q", producer.session, b"p")
    node.settle()
    cleaner = node.conductor.cleaner
    cleaner.step(node.clock.now + 1, lambda: True)
    assert cleaner.next_index > 20 or node.broker.receipts.has_batch()


@pytest.fixture
def spoilt(busy, subscribe):
    """Message 4 is moved to a queue `r`, by an entry that is damaged and stands behind it all."""
    busy.connect(subscribe.replace(b"/queue/q", b"/queue/r"))
    busy.consumer.connection_lost(None)
    busy.settle()
    broker = busy.broker
    broker.moving.take(broker.queue("q"), [broker.queue("r")], [4], Cause.MOVED, moved_at=1)
    busy.settle()
    busy.store.damaged = {busy.store.entries[-1].index}
    return busy


def entries_read(node, monkeypatch) -> list[int]:
    """Note which entries are read."""
    read, seen = node.store.entry, []

    def entry(index: int):
        seen.append(index)
        return read(index)

    monkeypatch.setattr(node.store, "entry", entry)
    return seen


def test_a_damaged_move_is_told_and_not_run_against(spoilt, monkeypatch) -> None:
    """
    A single node has nobody to repair it from: its segment was gone through at every tick.
    """
    seen = entries_read(spoilt, monkeypatch)
    clean(spoilt, 12)
    assert {"r": 1} == spoilt.conductor.cleaner.damage.needed
    before, first_index = len(seen), spoilt.store.first_index
    clean(spoilt, 40)
    assert (len(seen), spoilt.store.first_index) == (before, first_index)
    assert digest_of(kept_state(spoilt)) == digest_of(spoilt.broker.state)


def test_a_damaged_move_that_is_repaired_lets_cleaning_go_on(spoilt) -> None:
    """
    At once; the message is written again with its way.
    """
    clean(spoilt, 12)
    spoilt.store.damaged.clear()
    clean(spoilt, 12)
    assert spoilt.store.first_index > 10
    assert {} == spoilt.conductor.cleaner.damage.needed
    assert spoilt.broker.state.live_count() == 2
    assert digest_of(kept_state(spoilt)) == digest_of(spoilt.broker.state)


def test_a_damaged_move_of_what_was_purged_is_in_nobodys_way(spoilt) -> None:
    """
    An operator who is told the queue purges it; the cleaner looks again by and by.
    """
    clean(spoilt, 12)
    spoilt.broker.receipts.record(PurgeRecord(spoilt.broker.queue("r").number, 1))
    spoilt.settle()
    clean(spoilt, 80)
    assert spoilt.store.first_index > 10
    assert {} == spoilt.conductor.cleaner.damage.needed
    assert spoilt.broker.state.live_count() == 1


def test_where_what_was_moved_cannot_be_read_the_segment_is_begun_anew(busy, monkeypatch) -> None:
    """
    Though an entry behind it is damaged, in which nothing lives: what was read would be left out.
    """
    begun: list[object] = []
    errors = [CorruptEntryError("bad", index=9)]

    class Moved:
        def __init__(self, *_: object) -> None:
            begun.append(self)

        def step(self, _is_spent: object) -> None:
            if errors:
                raise errors.pop()

    monkeypatch.setattr(cleaning, "MovedContents", Moved)
    busy.store.damaged = {3}
    for _ in range(50):
        if busy.store.first_index > 1:
            break
        clean(busy)
    assert busy.store.first_index == 3
    assert len(begun) >= 2


def test_what_leaves_with_its_segment_is_not_copied_any_more(busy) -> None:
    """
    Its acknowledgement is on its way, so it was not written again: a copy would have no bytes.
    """
    queue, cleaner = busy.broker.queue("q"), busy.conductor.cleaner
    home = queue.index.record_number(1)
    busy.store.is_writing = True  # All of it is one entry.
    busy.consumer.data_received(b"ACK\nid:1-1\n\n\0")
    busy.conductor.turn()
    for _ in range(20):
        busy.clock.now += 1
        cleaner.step(busy.clock.now)
        if cleaner.leaving_through:
            break
    assert cleaner.through_record >= home == queue.index.record_number(1)
    assert busy.broker.moving.is_closed(queue, 1)
    cleaner.stop()
    assert not busy.broker.moving.is_closed(queue, 1)


def test_what_the_store_takes_no_more_is_not_written_again(new_node, send, subscribe) -> None:
    """
    It would cost the lease, in each tenure anew; the segment goes once that may be, or is settled.
    """
    node = new_node(settings=ServerSettings(clean_segment_count_min=0))
    node.serve()
    producer = node.connect(send(b"x" * 50_000))
    for number in range(9):
        producer.data_received(send(b"%d" % number * 19_000))
        node.settle()
    consumer = node.connect(subscribe)
    for key in range(2, 10):
        consumer.data_received(b"ACK\nid:1-%d\n\n\0" % key)
    node.settle()
    node.store.message_bytes_max = 20_000
    node.settle()
    clean(node, 20)
    assert (node.store.first_index, copied(node)) == (1, 0)
    assert node.conductor.cleaner.next_index == 0, "nothing is held meanwhile"
    node.store.message_bytes_max = 0
    clean(node, 20)
    assert (node.store.first_index, copied(node)) == (1, 0), "it is looked at again later"
    node.clock.now += 60
    clean(node, 20)
    assert node.store.first_index > 1
    assert digest_of(kept_state(node)) == digest_of(node.broker.state)


def test_what_is_written_again_is_no_larger_than_the_store_takes(half_dead) -> None:
    """
    However many small messages live in a segment.
    """
    last = len(half_dead.store.entries)
    half_dead.store.message_bytes_max = 5_000
    half_dead.settle()
    while half_dead.store.first_index == 1:
        clean(half_dead)
    assert copied(half_dead) == 1_000
    assert max(len(it.raw) for it in half_dead.store.entries[last:]) < 6_000
    assert digest_of(kept_state(half_dead)) == digest_of(half_dead.broker.state)
