"""What the node tells of its files, and what that may cost it."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from holdfast.journal.damage import Damage
from holdfast.journal.segment import file_digest
from holdfast.server.segment_digests import AGE_SECONDS_MAX, SegmentDigests
from trials.simulation.local_journal import LocalJournal


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_microseconds(self) -> int:
        return 0


@pytest.fixture
def log() -> LocalJournal:
    """Two sealed segments and the one being written."""
    made = LocalJournal()
    for number in range(5):
        made.append(bytes([number]) * 5500)
    assert [True, True, False] == [it.sealed for it in made.journal.segments()]
    return made


def test_sealed_segments_have_the_digest_of_their_file(log: LocalJournal) -> None:
    """The one that is being written has none."""
    found = asyncio.run(SegmentDigests(log.journal, _Clock()).segments())[0]

    expected = [
        file_digest(log.disk, it.path).hex() if it.sealed else "" for it in log.journal.segments()
    ]
    assert expected == [it.digest for it in found]


def test_a_file_is_read_once_however_many_ask(log: LocalJournal) -> None:
    """Whoever asks again and again costs the disk nothing."""
    digests = SegmentDigests(log.journal, _Clock())

    async def ask_often() -> None:
        await asyncio.gather(*[digests.segments() for _ in range(20)])

    asyncio.run(ask_often())
    assert 2 == digests.files_read


def test_a_digest_is_taken_again_after_a_while(log: LocalJournal) -> None:
    """What rotted meanwhile shows at last."""
    clock = _Clock()
    digests = SegmentDigests(log.journal, clock)
    asyncio.run(digests.segments())
    clock.now = AGE_SECONDS_MAX

    asyncio.run(digests.segments())

    assert 4 == digests.files_read


def test_the_digest_of_a_damaged_segment_is_not_remembered(log: LocalJournal) -> None:
    """Else the damage would hide, or stay after it is mended."""
    digests = SegmentDigests(log.journal, _Clock())
    asyncio.run(digests.segments())
    log.journal.report_damage(Damage(log.segment_path().name, 4096, 1, "rot"))

    asyncio.run(digests.segments())
    asyncio.run(digests.segments())

    assert 4 == digests.files_read


def test_a_segment_that_is_cleaned_away_meanwhile_is_left_out(log: LocalJournal) -> None:
    """The list was made before its file was read."""
    digests = SegmentDigests(log.journal, _Clock())
    log.disk.unlink(log.segment_path())

    found, _ = asyncio.run(digests.segments())

    assert [it.base_index for it in log.journal.segments()][1:] == [it.base_index for it in found]


def test_a_long_list_is_made_in_steps(log: LocalJournal) -> None:
    """Also where all is known: thousands of segments in one go would keep the loop from clients."""
    digests = SegmentDigests(log.journal, _Clock())
    known = digests._key
    looks: list[int] = []
    turn = 0

    def key(segment):
        looks.append(turn)
        return known(segment)

    async def ask() -> None:
        nonlocal turn
        await digests.segments()
        digests._journal = SimpleNamespace(  # type: ignore[assignment]
            segments=lambda: log.journal.segments()[:2] * 500,
            damage=[],
            term_at=log.journal.term_at,
        )
        looks.clear()
        asked = asyncio.create_task(digests.segments())
        while not asked.done():
            turn += 1
            await asyncio.sleep(0)
        assert 1_000 == len((await asked)[0])

    digests._key = key  # type: ignore[method-assign]
    asyncio.run(ask())
    assert 2_000 == len(looks)
    assert 100 >= max(Counter(looks).values())
    assert 2 == digests.files_read


def test_it_can_be_closed_before_and_after_use(log: LocalJournal) -> None:
    """A node that nobody asked has no thread to stop."""
    digests = SegmentDigests(log.journal, _Clock())
    digests.close()
    asyncio.run(digests.segments())
    digests.close()


def test_what_takes_long_is_given_in_pages(log: LocalJournal) -> None:
    """
    Whoever asks has an answer in time, and goes on behind it; nothing is left out or told twice.
    """
    clock = _Clock()
    digests = SegmentDigests(log.journal, clock)
    read = digests._digest

    async def slow(segment):
        clock.now += 4
        return await read(segment)

    digests._digest = slow  # type: ignore[method-assign]
    pages, after = [], 0
    while not pages or after:
        page, after = asyncio.run(digests.segments(after, 5))
        pages.append([it.base_index for it in page])
    bases = [it.base_index for it in log.journal.segments()]
    assert [bases[:2], bases[2:]] == pages
