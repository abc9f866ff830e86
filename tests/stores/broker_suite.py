"""
The property model of the broker on top of each medium: mixed into what gives the medium.

The stories are those of `tests.property.sessions.everything`: any frames, policies, transactions,
failovers. Here each entry that is sealed is stored in the medium before anything is confirmed, and
the next leader is another process, which has nothing but what it reads there. What the one before
it had not stored yet it tries to store once more, and must not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.journal.entry import KIND_RECORDS, Entry, seal_entry
from holdfast.leases.contract import Outcome, Place
from holdfast.model.format_level import NEWEST_LEVEL
from tests.property.sessions.everything import World
from tests.stores.leased_log_suite import LeasedLogSuite, Writer, read_all
from tests.unit.sessions.conftest import Desk

STEPS = 250


class DeskOnMedium(Desk):
    """A leading broker whose log is kept on a medium by who holds its lease."""

    def __init__(self, settings: BrokerSettings, writer: Callable[[], Writer]) -> None:
        super().__init__(settings)
        self._writer = writer
        self._holder = writer()
        self._holder.take()
        self._stored = 0
        self.takes = 0

    def commit(self) -> None:
        """Store what is sealed, and only then apply and confirm it."""
        self._store(self.log[self._stored :])
        super().commit()

    def _store(self, sealed: list[tuple[int, int, bytes]]) -> None:
        if sealed:
            assert self._send(self._holder, sealed) is Outcome.STORED
            self._stored += len(sealed)

    def fail_over(self) -> None:
        """What was not lost of the end was stored, unknown to anybody; the rest comes too late."""
        self._store(self.log[self._stored :])
        before, self._holder = self._holder, self._writer()
        self._holder.take()
        self.takes += 1
        assert self._send(before, [(before.next_record, 1, b"too late")]) is Outcome.DEPOSED
        found = [
            (it.first_record, it.timestamp, bytes(it.body))
            for it in read_all(self._holder.log)
            if it.kind == KIND_RECORDS
        ]
        assert found == self.log, "what was stored is there, and nothing else"
        self.log = found
        super().fail_over()

    def _send(self, writer: Writer, sealed: list[tuple[int, int, bytes]]) -> Outcome:
        """Append these as the holder that this writer is, or was."""
        entries: list[Entry] = []
        end = writer.end
        after = [first for first, _, _ in sealed[1:]] + [self.next_record]
        for (first, timestamp, body), following in zip(sealed, after, strict=True):
            entry = seal_entry(
                index=end.index + 1,
                term=writer.epoch,
                kind=KIND_RECORDS,
                timestamp=timestamp,
                first_record=first,
                record_count=max(following - first, 1),
                parts=[body],
                previous_chain=end.chain,
            )
            entries.append(entry)
            end = Place(entry.index, entry.chain)
        return writer.send_until_known(entries)


class BrokerSuite(LeasedLogSuite):
    """Whatever clients say, and whoever leads: the medium gives what was confirmed."""

    @pytest.mark.parametrize(
        ("seed", "is_harsh"), [(11, False), (24, True)], ids=["books are kept", "harsh"]
    )
    def test_the_broker_lives_through_everything_on_it(self, seed: int, is_harsh: bool) -> None:
        """None is lost, none comes again, and the state is what the entries that are read make."""
        settings = BrokerSettings(known_format_level=NEWEST_LEVEL)
        desk = DeskOnMedium(settings, self.writer)
        world = World(Random(seed), is_harsh=is_harsh, desk=desk)
        for _ in range(STEPS):
            world.step()
        world.fail_over()
        world.come_to_rest()
        assert (desk.takes >= 3, len(desk.log) >= 30) == (True, True), "a story was told"
