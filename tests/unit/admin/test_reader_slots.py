"""
Slots for those who read the log, and how far they stand back for others.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.admin import reader_slots
from holdfast.admin.reader_slots import LEADER_SLOTS, SLOTS, ReaderSlots, stand_back
from holdfast.errors import BusyError


@pytest.mark.parametrize(("leads", "count"), [(True, LEADER_SLOTS), (False, SLOTS)])
def test_who_comes_beyond_the_slots_is_told_to_come_later(leads: bool, count: int) -> None:
    """A leader has fewer; one given back is another's, and giving it back twice is none more."""

    async def scenario() -> None:
        slots = ReaderSlots()
        taken = [slots.take(leads=leads) for _ in range(count)]
        with pytest.raises(BusyError, match=f"answers {count} at once; ask another node"):
            slots.take(leads=leads)
        taken[0].give_back()
        taken[0].give_back()
        taken[0] = slots.take(leads=leads)
        with pytest.raises(BusyError):
            slots.take(leads=leads)
        for slot in taken:
            slot.give_back()
        assert len(slots) == 0

    asyncio.run(scenario())


def test_a_follower_that_comes_to_lead_takes_no_more_until_it_is_below_its_slots() -> None:
    """Those who are being answered are answered to the end."""

    async def scenario() -> None:
        slots = ReaderSlots()
        taken = [slots.take(leads=False) for _ in range(LEADER_SLOTS + 1)]
        with pytest.raises(BusyError, match=f"{LEADER_SLOTS + 1} readers"):
            slots.take(leads=True)
        for slot in taken:
            slot.give_back()

    asyncio.run(scenario())


def test_who_does_not_read_keeps_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while it is another's."""

    async def scenario() -> None:
        monkeypatch.setattr(reader_slots, "SLOT_SECONDS", 0.01)
        slots = ReaderSlots()
        slots.take(leads=False)
        async with asyncio.timeout(5):
            while len(slots):
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_who_reads_slowly_counts_as_long_as_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was taken for one that does not read: it is answered, so it counts."""

    async def scenario() -> None:
        monkeypatch.setattr(reader_slots, "SLOT_SECONDS", 0.01)
        slots = ReaderSlots()
        slot = slots.take(leads=False)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(5):
            while loop.time() - began < 0.05:
                slot.keep()
                await asyncio.sleep(0)
                assert len(slots) == 1
            while len(slots):
                await asyncio.sleep(0)
        slot.keep()
        assert len(slots) == 1
        slot.give_back()
        assert len(slots) == 0

    asyncio.run(scenario())


def test_an_idle_loop_is_left_at_once_and_a_busy_one_for_a_while() -> None:
    """For several times as long as its turn took, but for no longer than a reader's patience."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(20):
            await stand_back()
        assert loop.time() - began < 1.0

        def long_turn(seconds: float) -> None:
            until = loop.time() + seconds
            while loop.time() < until:
                pass

        began = loop.time()
        loop.call_soon(long_turn, 0.02)
        await stand_back()
        assert loop.time() - began >= 0.02 + reader_slots.STAND_BACK * 0.02

    asyncio.run(scenario())
