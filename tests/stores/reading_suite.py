"""
A log that is read from a server of databases beside its broker: with little right, and in spite of
what happens to the server meanwhile. Mixed into what gives the server, see test_postgresql.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from holdfast.copying import reading as reading_of_stores
from holdfast.copying.looking import open_looked
from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.spark.log import store_log as module
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.store_log import StoreLog, store_log
from tests.stores.sql_faults_suite import SECRET
from trials.databases.server import DatabaseServer
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message

COUNT = 40


class ReadingSuite(ABC):
    """Who reads has the entries, whoever serves them."""

    server: DatabaseServer
    database: str

    @abstractmethod
    def only_reading(self) -> str:
        """The URL of a user that may read the tables, and nothing else."""

    @abstractmethod
    def guarded(self) -> AbstractContextManager[tuple[str, str]]:
        """As in `SqlServerSuite`."""

    @abstractmethod
    def unsafe(self) -> AbstractContextManager[str]:
        """As in `SqlServerSuite`."""

    def filled(self, tmp_path: Path) -> list[Entry]:
        bodies = (message(1, it, b"x" * 3000) for it in range(1, COUNT))
        entries = written(tmp_path / "log", *bodies)
        fill([self.server.url(self.database)], entries)
        return entries

    def test_a_reader_needs_the_right_to_read_and_no_other(self, tmp_path: Path) -> None:
        """Nor safe settings: what they would lose is for who writes."""
        entries = self.filled(tmp_path)
        with self.unsafe():
            assert read(store_log([self.only_reading()])) == [it.raw for it in entries]
            log = open_looked([self.only_reading()])
            found = reading_of_stores.verify(log)
            log.close()
        assert (found.damage, found.last_chain) == ((), entries[-1].chain)

    def test_a_readers_password_is_told_nowhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It comes by the environment or a file; a wrong one is refused at once."""
        entries = self.filled(tmp_path)
        with self.guarded() as (right, wrong):
            monkeypatch.setenv("HOLDFAST_STORE_PASSWORD", "right")
            assert read(store_log([right.replace(":right@", "@")])) == [it.raw for it in entries]
            (tmp_path / "secret").write_text(SECRET)
            bare = wrong.replace(f":{SECRET}@", "@")
            log = store_log([f"{bare}?password_file={tmp_path}/secret"])
            with pytest.raises(StoreError) as raised:
                log.position()
        assert not isinstance(raised.value, UnreachableError)
        assert SECRET not in f"{raised.value}{raised.value.__cause__}{log!r}{log}"

    def test_a_server_that_is_killed_while_it_is_read_is_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was planned comes whole once it is up again; how far it goes is an error soon."""
        entries = self.filled(tmp_path)
        log = store_log([self.server.url(self.database)])
        monkeypatch.setattr(reading_of_stores, "READ_BYTES", 20_000)
        reading = log.blocks(1, COUNT)
        first = next(reading)
        assert first.last_index < COUNT
        self.server.kill()
        monkeypatch.setattr(module, "POSITION_SECONDS", 0.0)
        with pytest.raises(UnreachableError, match=self.database):
            log.position()
        self.server.start()
        assert raws([first, *reading]) == [it.raw for it in entries]


def read(log: StoreLog) -> list[bytes]:
    position = log.position()
    return raws(list(log.blocks(position.first_index, position.last_index)))


def raws(blocks: list[object]) -> list[bytes]:
    found = []
    for block in blocks:
        assert isinstance(block, EntryBlock), "nothing is damaged"
        found += [block.raw(place) for place in range(len(block))]
    return found
