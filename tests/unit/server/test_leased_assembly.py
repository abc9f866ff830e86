"""Tests of server/leased_assembly.py: a whole node over a modelled medium."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.node import NodeConfig
from holdfast.errors import ForeignDirectoryError, JournalFailedError
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.entry_body import seal_body
from holdfast.journal.jobs import WriteResult
from holdfast.server import leased_assembly
from holdfast.server.assembly import assemble
from holdfast.server.leased_assembly import only_failures
from holdfast.server.leased_group import LeasedGroup
from trials.leased.group_desk import node_config
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import DirectPassage


class Hearer:
    """Hears nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def _modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    medium = ModelMedium()
    monkeypatch.setattr(
        leased_assembly, "make_medium", lambda _config, _seen: ModelLog(medium, DirectPassage())
    )


@pytest.mark.usefixtures("_modelled")
def test_its_directory_has_a_cache_and_no_log(tmp_path: Path) -> None:
    """And the driver is one of a group, under a name and addresses that others find it by."""
    config = node_config(tmp_path / "a", name="left")
    parts = assemble(config, Hearer())

    assert isinstance(parts.driver, LeasedGroup)
    claimant = parts.driver.claimant
    assert ("left", str(config.stomp)) == (claimant.name, claimant.stomp)
    assert 32 == len(claimant.holder)
    assert tmp_path / "a" / "cache" == parts.journal.directory
    assert not (tmp_path / "a" / "journal").exists()
    parts.journal.close()


@pytest.mark.usefixtures("_modelled")
def test_each_process_is_another_holder(tmp_path: Path) -> None:
    """A name used twice must not hurt."""
    holders = set()
    for number in range(2):
        parts = assemble(node_config(tmp_path / str(number)), Hearer())
        assert isinstance(parts.driver, LeasedGroup)
        holders.add(parts.driver.claimant.holder)
        parts.journal.close()
    assert 2 == len(holders)


@pytest.mark.usefixtures("_modelled")
def test_a_cache_is_not_served_as_a_log(tmp_path: Path) -> None:
    """Without the store a broker would begin an empty log beside the one that has the messages."""
    assemble(node_config(tmp_path / "a"), Hearer()).journal.close()
    alone = NodeConfig.load(flags={"data": str(tmp_path / "a")}, environment={})

    with pytest.raises(ForeignDirectoryError, match="--store or --shared that it had"):
        assemble(alone, Hearer())


@pytest.mark.usefixtures("_modelled")
def test_a_log_is_not_taken_for_a_cache(tmp_path: Path) -> None:
    """What a node has stored alone stays where it is."""
    alone = NodeConfig.load(flags={"data": str(tmp_path / "a")}, environment={})
    assemble(alone, Hearer()).journal.close()

    with pytest.raises(ForeignDirectoryError, match="a node of its own"):
        assemble(node_config(tmp_path / "a"), Hearer())


@pytest.mark.usefixtures("_modelled")
def test_a_cache_that_is_away_is_not_waited_for(tmp_path: Path) -> None:
    """Who waited would read on, and hold all of it in memory; who ends lets another one serve."""
    parts = assemble(node_config(tmp_path / "a"), Hearer())
    (tmp_path / "a").rename(tmp_path / "away")
    journal = parts.journal
    entry = seal_body(
        [b"x"],
        kind=KIND_RECORDS,
        term=1,
        record_count=1,
        index=journal.last_index + 1,
        timestamp=journal.last_timestamp + 1,
        first_record=journal.next_record_number,
        previous_chain=journal.last_chain,
    )
    job = journal.stage([entry])
    writer = threading.Thread(target=parts.writer.turn, args=([job],), daemon=True)
    writer.start()
    writer.join(10)

    assert not writer.is_alive()
    assert str(tmp_path / "a" / "cache" / "journal") in str(parts.writer.failure)


def test_of_a_caches_writes_only_failures_are_told() -> None:
    """Nobody waits for the others, and each would turn the loop."""
    told: list[Any] = []
    tell = only_failures(told.append)

    tell(WriteResult(1, [], 0.0, None))
    assert [] == told
    failed = WriteResult(1, [], 0.0, JournalFailedError("no"))
    tell(failed)
    assert [failed] == told
