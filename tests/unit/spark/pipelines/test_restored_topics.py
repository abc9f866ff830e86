"""
Stored topics in an archive, and in the log that is restored from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings, MiB
from holdfast.spark.archive.manifests import Catalogue
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.applied_archive import AppliedArchive
from holdfast.spark.pipelines.queried_archive import QueriedArchive
from holdfast.spark.pipelines.restored_log import LogStart, NewMember, RestoredLog
from holdfast.store.record_codec import decode_records
from tests.unit.broker.lasting.topic_log import TopicLog, step
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog

START = LogStart(
    index=901, record=99_001, term=7, chain="ab" * 16, timestamp=1, cluster_id="1" * 32
)


Lived = Callable[[Archive, Catalogue], AppliedArchive | QueriedArchive]


def applied(archive: Archive, catalogue: Catalogue) -> AppliedArchive:
    """Read a small archive here."""
    return AppliedArchive(archive, catalogue.files(), catalogue.last_index)


def restored(log: TopicLog, folder: Path, lived: Lived = applied) -> BrokerState:
    """Give the state of a log that is restored from the archive of another one."""
    with WrittenLog(folder / "log") as written:
        for _, records in log.entries:
            written.put(*records)
    archive = archived_log(LogDirectory(str(folder / "log")), folder / "archive", per_range=20)
    catalogue = archive.catalogue()
    with lived(archive, catalogue) as found:
        state = found.lasting_state()
        with RestoredLog(folder / "new", START, segment_bytes=MiB) as new:
            new.begin(NewMember())
            new.add_state(state.queues, state.producers, state.next_queue_number)
            for each in found.packed(Place(str(new.scratch)), "abcdef01"):
                new.add_messages(each.body, each.records, each.places)
            new.add_topics(state)
            done = new.finish()
            assert sum(row["messages"] for row in found.queues()) == sum(done.live.values())
    return read_back(folder / "new")


def read_back(directory: Path) -> BrokerState:
    state = BrokerState(BrokerSettings())
    journal = Journal.open(directory, RealDisk(), JournalSettings(segment_bytes=MiB))
    for index in range(journal.first_index, journal.last_index + 1):
        entry = journal.entry(index)
        if entry.kind == KIND_RECORDS:
            records = decode_records(entry.body, with_content=False)
            state.apply(entry.first_record, records, entry.timestamp, entry.term)
    journal.close()
    return state


def needed(state: BrokerState) -> dict[str, list[int]]:
    """Give what each subscription, topic and queue has."""
    found = {
        **{f"{key}": each for key, each in state.subscriptions.items()},
        **{f"topic {name}": topic for name, topic in state.topics.items()},
        **state.by_name,
    }
    return {name: list(each.index.sequences(1, 1 << 60)) for name, each in found.items()}


@pytest.mark.parametrize("seed", range(4))
def test_each_subscription_has_again_what_it_needed(seed: int, tmp_path: Path) -> None:
    """
    Nothing that it was done with or did not want comes again, whatever others need; and topics go
    on with their numbers, subscriptions with their names, slots and selectors.
    """
    chance = random.Random(seed)
    log = TopicLog()
    for _ in range(50):
        step(log, chance)
    state = restored(log, tmp_path)
    assert needed(state) == needed(log.state)
    for name, topic in state.topics.items():
        before = log.state.topics[name]
        assert (topic.number, topic.next_sequence) == (before.number, before.next_sequence)
        assert topic.index.is_whole
    for key, each in state.subscriptions.items():
        was = log.state.subscriptions[key]
        assert each.selector == was.selector
        assert (each.number, each.index.slot) == (was.number, was.index.slot)
        assert each.detached_at == was.detached_at


def test_an_archive_of_topics_that_wait_for_nobody_is_restored(tmp_path: Path) -> None:
    """
    A topic is there, and its subscription; nothing of what was sent is.
    """
    log = TopicLog()
    topic = log.topic()
    number = log.subscribe(topic)
    log.send(topic, 3)
    log.settle(number, [1, 2, 3])
    state = restored(log, tmp_path)
    assert needed(state) == needed(log.state)
    assert state.live_count() == 0
    assert len(state.subscriptions) == len(state.topics) == 1
