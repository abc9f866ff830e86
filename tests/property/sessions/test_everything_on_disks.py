"""
Everything at once over a journal on one disk, whose power is cut, and on two that are mirrored.

The stories are those of `everything`; each entry is written before anything of it is confirmed, and
the next leader has only what is read from the disk. On leased media: tests/stores/broker_suite.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.settings import MirrorSettings
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.server.mirrors import open_set
from tests.property.sessions.everything import World
from tests.unit.sessions.conftest import Desk
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

SETTINGS = JournalSettings(segment_bytes=16 * KiB)


class DeskOnJournal(Desk):
    """A leading broker whose log is a journal."""

    def __init__(self, restart: Callable[[LocalJournal | None], LocalJournal]) -> None:
        super().__init__(BrokerSettings(known_format_level=NEWEST_LEVEL))
        self._restart = restart
        self._held = restart(None)
        self._stored = 0
        self.restarts = 0

    def commit(self) -> None:
        """Write what is sealed, and only then apply and confirm it."""
        self._store()
        super().commit()

    def _store(self) -> None:
        sealed = self.log[self._stored :]
        if not sealed:
            return
        after = [first for first, _, _ in sealed[1:]] + [self.next_record]
        for (first, timestamp, body), following in zip(sealed, after, strict=True):
            journal = self._held.journal
            entry = seal_entry(
                index=journal.last_index + 1,
                term=1,
                kind=KIND_RECORDS,
                timestamp=timestamp,
                first_record=first,
                record_count=following - first,
                parts=[body],
                previous_chain=journal.last_chain,
            )
            self._held.perform(journal.stage([entry]))
        self._stored = len(self.log)

    def fail_over(self) -> None:
        """What was not lost of the end was written, unknown to anybody; all that is there again."""
        self._store()
        self._held = self._restart(self._held)
        self.restarts += 1
        journal = self._held.journal
        entries = [journal.entry(it) for it in range(journal.first_index, journal.last_index + 1)]
        found = [(it.first_record, it.timestamp, bytes(it.body)) for it in entries]
        assert found == self.log, "what was stored is there, and nothing else"
        self.log = found
        super().fail_over()


def lives_through(seed: int, restart: Callable[[LocalJournal | None], LocalJournal]) -> None:
    desk = DeskOnJournal(restart)
    world = World(Random(seed), is_harsh=bool(seed % 2), desk=desk)
    for _ in range(250):
        world.step()
    world.fail_over()
    world.come_to_rest()
    assert (desk.restarts >= 2, len(desk.log) >= 30) == (True, True), "a story was told"


@pytest.mark.parametrize("seed", [2, 5, 8, 14])
def test_a_disk_whose_power_is_cut_has_what_was_confirmed(seed: int) -> None:
    """At each change of the leader; in segments that are left all the time."""

    def restart(log: LocalJournal | None) -> LocalJournal:
        if log is None:
            return LocalJournal(SimulatedDisk(seed), settings=SETTINGS)
        log.reopen_after_power_cut()
        return log

    lives_through(seed, restart)


@pytest.mark.parametrize("seed", [2, 5])
def test_of_two_disks_each_may_rot(seed: int, tmp_path: Path) -> None:
    """At each change of the leader, in turns; the other one has what was confirmed."""
    places = [tmp_path / "one", tmp_path / "two"]
    opened: list[Caretaker] = []

    def restart(log: LocalJournal | None) -> LocalJournal:
        if log is not None:
            log.close()
            opened[-1].close()
            rot(places[len(opened) % 2], Random(seed + len(opened)))
        opened.append(open_set(places, RealDisk(), MirrorSettings()))
        disk = opened[-1].disk
        return LocalJournal(disk, directory=disk.base, settings=SETTINGS)

    lives_through(seed, restart)
    opened[-1].close()


def rot(directory: Path, random: Random) -> None:
    """Change a byte of the first entries, in the oldest file."""
    path = min((directory / "journal").glob("*.segment"))
    data = bytearray(path.read_bytes())
    data[random.randrange(SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + 2000)] ^= 1
    path.write_bytes(data)
