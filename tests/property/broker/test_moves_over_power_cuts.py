"""
The power fails at each step of writing a move: every message stands on just one queue (Q27).
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import (
    FormatRecord,
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Record,
    Run,
)
from holdfast.store.record_codec import decode_records, encode_records
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

COUNT = 300


def append(log: LocalJournal, records: list[Record]) -> None:
    log.append(*(b"".join(encode_records([record])) for record in records))


def filled(seed: int, filler_bytes: int) -> LocalJournal:
    """A log of 300 messages on one of two queues, so far that the move stands where it is to."""
    log = LocalJournal(SimulatedDisk(seed))
    queues = [FormatRecord(MOVES_LEVEL), QueueRecord(1, "one"), QueueRecord(2, "two")]
    sent = [MessageRecord(1, number, b"", b"%03d" % number, 3) for number in range(1, COUNT + 1)]
    append(log, [*queues, *sent])
    append(log, [MessageRecord(1, COUNT + 1, b"", bytes(filler_bytes), filler_bytes)])
    return log


def move() -> MoveRecord:
    """Every second message, so that the record is long: several sectors, maybe in two segments."""
    runs = [Run(number, place, 1) for place, number in enumerate(range(1, COUNT + 1, 2), 1)]
    return MoveRecord(1, 2, Cause.REJECTED, runs, queue_name="one", reason="why", moved_at=9)


def places(log: LocalJournal) -> list[set[int]]:
    """Read the whole log; give which messages stand on each queue, by the number in their body."""
    state = BrokerState(BrokerSettings())
    bodies: dict[int, bytes | None] = {}
    journal = log.journal
    for index in range(journal.first_index, journal.last_index + 1):
        entry = journal.entry(index)
        records = list(decode_records(entry.body))
        for number, record in enumerate(records, entry.first_record):
            if type(record) is MessageRecord:
                bodies[number] = record.body
        state.apply(entry.first_record, records, entry.timestamp, entry.term)
    found = []
    for queue in (1, 2):
        index = state.queues[queue].index
        content = [bodies[index.record_number(it)] for it in index.sequences(1, COUNT + 1)]
        found.append({int(body or b"0") for body in content})
        assert len(found[-1]) == len(content), "one stands there twice"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("filler_bytes", [10, 5_000, 11_500])
def test_after_a_power_cut_each_message_is_on_one_queue(filler_bytes: int) -> None:
    """
    And where the move was said to be stored, on the other one; within a segment and at its end.
    """
    everything = set(range(1, COUNT + 1))
    moved = set(range(1, COUNT + 1, 2))
    cuts, outcomes = 0, set()
    for seed in range(8):
        step, is_cut = 0, True
        while is_cut:
            step += 1
            log = filled(seed, filler_bytes)
            disk = log.disk
            assert isinstance(disk, SimulatedDisk)
            wanted = log.journal.last_index + 1
            disk.cut_at = disk.operations + step
            try:
                append(log, [move()])
                is_cut = False
            except PowerCut:
                cuts += 1
            is_stored = wanted in log.stored
            log.reopen_after_power_cut()
            one, two = places(log)
            assert (one | two, one & two) == (everything, set())
            assert two in (set(), moved)
            assert two == moved or not is_stored
            outcomes.add(bool(two))
            log.close()
    assert cuts >= 8
    assert outcomes == {False, True}
