"""
The state that a node begins with, and the damage that it does not begin with.
"""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from holdfast.broker.lasting.snapshot import encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import FormatLevelError, StoreError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.journal import Journal
from holdfast.model.records import FormatRecord
from holdfast.server.restoring import restore
from trials.simulation.local_journal import LocalJournal


@pytest.fixture
def log() -> LocalJournal:
    """A log of twelve entries in several segments."""
    log = LocalJournal()
    for number in range(12):
        log.append(bytes(3000 + number))
    return log


def files(log: LocalJournal) -> CheckpointStore:
    return CheckpointStore(log.journal.directory, log.disk)


def restored(journal: Journal, log: LocalJournal, *, is_alone: bool) -> tuple[BrokerState, int]:
    return restore(journal, files(log), BrokerSettings(), is_alone=is_alone)


def damaged(log: LocalJournal, index: int) -> Journal:
    """Flip a bit of an entry while the node is down, and open the log again."""
    log.writer.save_floor()
    place = log.journal.place_of(index)
    log.journal.close()
    log.disk.flip_bit(place.path, place.byte * 8 + 300)
    return log.reopen()


def test_without_a_checkpoint_all_is_applied_from_the_log(log: LocalJournal) -> None:
    """
    A checkpoint is a cache: its want costs time, and nothing else.
    """
    state, index = restored(log.journal, log, is_alone=True)
    assert (state.live_count(), index) == (0, log.journal.first_index - 1)


def test_a_checkpoint_that_cannot_be_read_is_told_and_ignored(log: LocalJournal) -> None:
    """
    Its file is whole and what it says is not: a later version's, or our own mistake.
    """
    last = log.journal.entry(log.journal.last_index)
    files(log).save(
        last.index, last.term, last.chain, last.next_record, log.journal.first_index, [b"?"]
    )
    with capture_logs() as lines:
        state, index = restored(log.journal, log, is_alone=True)
    assert [line["index"] for line in lines if line["event"] == "checkpoint ignored"] == [12]
    assert (state.live_count(), index) == (0, log.journal.first_index - 1)


def test_a_checkpoint_of_a_log_beyond_what_is_known_stops_every_node(log: LocalJournal) -> None:
    """
    It is whole, so the log has reached that level too; it is no cache that could be done without.
    """
    state = BrokerState(BrokerSettings())
    state.apply(1, [FormatRecord(2)], 1)
    last = log.journal.entry(log.journal.last_index)
    body = encode_state(state)
    files(log).save(
        last.index, last.term, last.chain, last.next_record, log.journal.first_index, body
    )
    old = BrokerSettings(known_format_level=1)
    with pytest.raises(FormatLevelError, match="the log of this cluster has reached level 2"):
        restore(log.journal, files(log), old, is_alone=False)
    assert restored(log.reopen(), log, is_alone=True)[0].format_level == 2


@pytest.mark.parametrize("is_alone", [True, False])
def test_damage_that_must_be_applied_stops_a_single_node_only(
    log: LocalJournal, is_alone: bool
) -> None:
    """
    Others have peers to repair it from. Its place is told either way, for whoever must act.
    """
    journal = damaged(log, 5)
    with capture_logs() as lines:
        if is_alone:
            with pytest.raises(StoreError, match="entry 5 is damaged"):
                restored(journal, log, is_alone=True)
        else:
            restored(journal, log, is_alone=False)
    assert [line["index"] for line in lines if line["event"] == "damage in the log"] == [5]
