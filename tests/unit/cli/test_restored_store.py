"""What was restored goes into a store: all of it, an empty one, and a half one serves nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.restored_store import copy_to_store, empty_store
from holdfast.copying.leased import LeasedTarget
from holdfast.copying.places import parse_place
from holdfast.errors import ConfigError, StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.journal.settings import KiB
from holdfast.model.records import QueueRecord
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import chain_before_log
from holdfast.spark.log.source import LogSource
from holdfast.spark.log.store_log import store_log
from holdfast.spark.pipelines.restored_log import LogStart, NewMember, RestoredLog
from holdfast.store.record_codec import encode_records
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message

START = LogStart(
    index=101,
    record=501,
    term=7,
    chain="ab" * 16,
    timestamp=1_000,
    cluster_id="0123456789abcdef" * 2,
)


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A log of several files, which continues an archive behind entry 100."""
    directory = tmp_path / "restored"
    with RestoredLog(directory, START, segment_bytes=64 * KiB) as log:
        log.begin(NewMember(name="new"))
        log.add_state((QueueRecord(1, "orders", 900, 4096),), (), 12)
        for sequence in range(1, 60):
            sent = message(1, sequence, b"x" * 4000)
            sent.rewritten = True
            log.add_messages(b"".join(encode_records([sent])), 1, 1)
        log.finish()
    return directory


@pytest.fixture(params=["sqlite", "shared"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "shared":
        return f"shared:{tmp_path}/there"
    return f"sqlite:///{tmp_path}/there.db"


def rows(log: LogSource) -> list[tuple[int, bytes]]:
    position = log.position()
    return [
        (block.first_index + place, block.raw(place))
        for block in log.blocks(position.first_index, position.last_index)
        for place in range(len(block))
    ]


def test_all_of_it_comes_there_and_goes_on_where_the_archive_ended(
    restored: Path, address: str
) -> None:
    """Byte for byte, under the new cluster's identity, behind the archive's chain."""
    copied, place = copy_to_store(restored, empty_store(address))
    there, here = store_log([address]), LogDirectory(str(restored))
    assert rows(there) == rows(here)
    assert chain_before_log(there, there.position()) == "ab" * 16
    assert there.position().cluster_id == here.position().cluster_id == copied.identity
    assert place in address
    assert copied.start.startswith("holdfast serve --data OWN --s")


def test_a_store_that_has_anything_is_refused_before_hours_of_work(
    restored: Path, address: str, tmp_path: Path
) -> None:
    """Nothing in it is changed; nor is a place taken that a node names by --to."""
    fill([address], written(tmp_path / "log", message(1, 1)))
    with pytest.raises(StoreError, match="holds a log already"):
        empty_store(address)
    with pytest.raises(ConfigError, match="name it with --to instead"):
        empty_store(str(tmp_path / "d"))
    with pytest.raises(UnreachableError):
        empty_store("postgresql://u@127.0.0.1:1/db")
    assert store_log([address]).position().last_index == 2


def test_a_half_one_is_served_by_nobody(
    restored: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a broker, nor is it read as a log, or taken for an empty place."""
    stored: list[Entry] = []

    def append(target: LeasedTarget, entries: list[Entry]) -> None:
        whole(target, entries[:5])
        stored.extend(entries[:5])
        raise StoreError("the machine went down")

    whole = LeasedTarget.append
    monkeypatch.setattr(LeasedTarget, "append", append)
    place = empty_store(address)
    with pytest.raises(StoreError, match="went down"):
        copy_to_store(restored, place)
    assert len(stored) == 5
    with pytest.raises(StoreError, match="is not whole"):
        empty_store(address)
    with pytest.raises(StoreError, match="is not whole"):
        store_log([address]).position()
    medium = parse_place(address).open_medium
    assert medium is not None
    broker = medium()
    with pytest.raises(StoreError, match="is not whole"):
        broker.open()
    broker.close()
