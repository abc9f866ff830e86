"""The users of a node by its own log up to its end."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.broker.lasting.access import LastingAccess
from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import FIRST_CHAIN, KIND_NOOP, KIND_RECORDS, Entry, seal_entry
from holdfast.journal.segment import EntryPlace
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.server import log_end_users
from holdfast.server.log_end_users import LogEndUsers
from holdfast.store.record_codec import encode_records


class PaperJournal:
    """Entries in a list, and those that are stored in a file; one may be damaged."""

    def __init__(self, path: Path) -> None:
        self.kept: list[Entry] = []
        self.damaged = 0
        self.reads: list[int] = []
        self.spans: list[int] = []
        self.stored_index = 0
        self.disk = None
        self.path = path

    first_index = 1

    def store(self) -> None:
        self.path.write_bytes(b"".join(it.raw for it in self.kept))
        self.stored_index = len(self.kept)

    def span(self, index: int, bytes_max: int, through: int) -> tuple[EntryPlace, int]:
        self.spans.append(index)
        start = sum(len(it.raw) for it in self.kept[: index - 1])
        last, size = index, len(self.kept[index - 1].raw)
        while last < through and size + len(self.kept[last].raw) <= bytes_max:
            size += len(self.kept[last].raw)
            last += 1
        return EntryPlace(self.path, start, size), last

    @property
    def last_index(self) -> int:
        return len(self.kept)

    def add(self, *records, term: int = 1) -> None:
        last = self.kept[-1] if self.kept else None
        self.kept.append(
            seal_entry(
                index=self.last_index + 1,
                term=term,
                kind=KIND_RECORDS if records else KIND_NOOP,
                timestamp=self.last_index + 1,
                first_record=last.next_record if last else 1,
                record_count=len(records),
                parts=encode_records(list(records)),
                previous_chain=last.chain if last else FIRST_CHAIN,
            )
        )

    def entries(self, from_index: int, _bytes_max: int) -> list[Entry]:
        self.reads.append(from_index)
        if from_index <= self.damaged:
            raise CorruptEntryError("entry 2 is damaged")
        return self.kept[from_index - 1 : from_index]

    def chain_at(self, index: int) -> bytes:
        return self.kept[index - 1].chain


def user(name: str, *roles: str, revision: int = 1) -> UserRecord:
    return UserRecord(name, json.dumps({"roles": list(roles)}), revision)


def gone(name: str) -> UserRecord:
    return UserRecord(name, "", 9)


@pytest.fixture
def world(tmp_path):
    journal, access = PaperJournal(tmp_path / "log"), LastingAccess()
    store = SimpleNamespace(is_sure=False, applied_index=0)
    users = LogEndUsers(journal, store, lambda: access)
    return SimpleNamespace(journal=journal, access=access, store=store, users=users)


def known(world) -> dict[str, str]:
    asyncio.run(world.users.look())
    found = {name: world.users.record_of(name) for name in ("ann", "ben", "cas")}
    return {name: it.values for name, it in found.items() if it is not None}


def test_the_newest_word_of_the_log_counts_committed_or_not(world) -> None:
    """Over that of the checkpoint: who was removed, or has other roles, has not the old ones."""
    world.access.put(user("ann", "admin"), 1)
    world.access.put(user("ben", "admin"), 1)
    world.journal.add()
    world.journal.add(GrantRecord("x", "queue://A", 1), user("ann", "viewer"), user("cas"))
    world.journal.add(gone("ben"), user("cas", "admin"))
    assert known(world) == {"ann": '{"roles": ["viewer"]}', "cas": '{"roles": ["admin"]}'}
    assert sorted(world.users.users()) == ["ann", "ben", "cas"]
    assert not world.users.users()["ben"].values
    assert world.users.trouble == ""


def test_what_was_read_is_not_read_again_and_what_was_cut_counts_no_more(world) -> None:
    """A stranger who asks again and again costs one reading."""
    world.journal.add(user("ann"))
    world.journal.add(user("ben"))
    assert sorted(known(world)) == sorted(known(world)) == ["ann", "ben"]
    assert world.journal.reads == [1, 2]
    world.journal.add(user("cas"))
    assert sorted(known(world)) == ["ann", "ben", "cas"]
    assert world.journal.reads == [1, 2, 3]
    del world.journal.kept[1:]
    world.journal.add(user("cas"), term=2)
    world.journal.add(term=2)
    assert sorted(known(world)) == ["ann", "cas"]
    del world.journal.kept[1:]
    assert sorted(known(world)) == ["ann"]


def test_what_is_on_the_disk_is_read_and_checked_by_a_thread(world, monkeypatch) -> None:
    """
    An entry may have 60 MB, which takes 45 ms to read and to check, and a disk may hang.

    What is not on the disk yet is in memory; the newest word counts over both.
    """
    threads: list[int] = []
    parse = log_end_users.parse_entry

    def parsed(*given) -> Entry:
        threads.append(threading.get_ident())
        return parse(*given)

    monkeypatch.setattr(log_end_users, "parse_entry", parsed)
    monkeypatch.setattr(log_end_users, "_READ_BYTES", 500)
    monkeypatch.setattr(log_end_users, "_RECORDS_PER_LOOK", 2)
    world.journal.add(user("ann"), user("ben"))
    world.journal.add(*[GrantRecord("x", "queue://A", 1)] * 100)
    for _ in range(5):
        world.journal.add()
    world.journal.store()
    world.journal.add(user("ann", "viewer"))
    assert known(world) == {"ann": '{"roles": ["viewer"]}', "ben": '{"roles": []}'}
    assert len(threads) == 7
    assert threading.get_ident() not in threads
    assert world.journal.reads == [8], "only what is in memory is taken on the loop"
    assert world.journal.spans == [1, 2, 3]


def test_what_is_not_sound_on_the_disk_the_journal_is_asked_for(world) -> None:
    """It may have it in memory, or from another mirror; what it cannot read nobody is known by."""
    world.journal.add(user("ann"))
    world.journal.add(user("ben"))
    world.journal.store()
    whole = world.journal.path.read_bytes()
    world.journal.path.write_bytes(whole[:-20] + b"damaged" + whole[-13:])
    assert sorted(known(world)) == ["ann", "ben"]
    assert world.journal.reads == [1, 2]
    first = world.journal.kept[0].raw
    world.journal.path.write_bytes(first + first)
    world.users._through = 0
    world.journal.reads.clear()
    assert sorted(known(world)) == ["ann", "ben"]
    world.journal.path.unlink()
    world.users._through = 0
    world.journal.damaged = 1
    assert known(world) == {}


def test_what_is_cut_while_the_thread_reads_it_counts_no_more(world, monkeypatch) -> None:
    """The log is read anew as it is then."""
    world.journal.add(user("ann"))
    world.journal.add(user("ben"))
    world.journal.store()
    read = log_end_users._read

    def cut(*given):
        found = read(*given)
        if world.journal.kept[-1].term == 1:
            del world.journal.kept[1:]
            world.journal.add(user("cas"), term=2)
            world.journal.store()
        return found

    monkeypatch.setattr(log_end_users, "_read", cut)
    assert sorted(known(world)) == ["ann", "cas"]


def test_a_disk_that_gives_less_than_was_asked_is_asked_again(world, monkeypatch) -> None:
    """Linux gives 2 GiB at most at once, others less."""
    world.journal.add(user("ann"))
    world.journal.store()
    pread = os.pread
    monkeypatch.setattr(log_end_users.os, "pread", lambda f, size, at: pread(f, min(size, 7), at))
    assert sorted(known(world)) == ["ann"]
    assert world.journal.reads == []


def test_only_what_is_not_applied_is_read(world) -> None:
    """The checkpoint says the rest."""
    for name in ("ann", "ben"):
        world.journal.add(user(name))
    world.store.applied_index = 1
    assert sorted(known(world)) == ["ben"]
    assert world.journal.reads == [2]


def test_where_the_log_is_damaged_nobody_is_known_by_it(world) -> None:
    """What cannot be read might say that he was removed; the sentence says where it is."""
    world.access.put(user("ann", "admin"), 1)
    world.journal.add(user("ben"))
    world.journal.damaged = 1
    assert known(world) == {}
    assert "cannot be read for its users: entry 2 is damaged" in world.users.trouble
    world.journal.damaged = 0
    assert sorted(known(world)) == ["ann", "ben"]


def test_once_it_is_sure_the_state_alone_counts(world) -> None:
    """Then what is not committed is nobody's word."""
    world.journal.add(user("ben"))
    world.access.put(user("ann"), 1)
    assert sorted(known(world)) == ["ann", "ben"]
    world.store.is_sure = True
    assert sorted(known(world)) == ["ann"]
    assert world.users.users() is world.access.users


def test_a_long_log_is_read_in_slices_and_nobody_waits_for_all_of_it(world, monkeypatch) -> None:
    """Whoever asked is told how far it is; nobody is known by half of it."""
    monkeypatch.setattr(log_end_users, "WAIT_SECONDS_MAX", 0.0)
    monkeypatch.setattr(log_end_users, "_RECORDS_PER_LOOK", 1)
    for _ in range(3):
        world.journal.add(GrantRecord("x", "queue://A", 1), user("ann"))

    async def work() -> None:
        turns = 0
        await world.users.look()
        assert "is being read" in world.users.trouble
        assert world.users.record_of("ann") is None
        while world.users.trouble:
            turns += 1
            await asyncio.sleep(0)
        assert world.users.record_of("ann") is not None
        assert turns > 1
        world.users.close()

    monkeypatch.setattr("holdfast.admin.slices.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(log_end_users.Slices, "rest", lambda _self: asyncio.sleep(0))
    asyncio.run(work())


def test_who_ends_the_node_reads_no_more(world) -> None:
    """Nothing is left under way."""
    world.journal.add(user("ann"))

    async def work() -> None:
        reading = asyncio.create_task(world.users.look())
        await asyncio.sleep(0)
        world.users.close()
        await reading

    asyncio.run(work())
