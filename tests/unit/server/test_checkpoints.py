"""
When checkpoints are written, with files and a store that do what a test tells them.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.model.records import QueueRecord
from holdfast.server.checkpoints import WORK_PER_STEP, Checkpoints


class Files:
    """Keeps what is saved, or fails."""

    def __init__(self) -> None:
        self.saved: list[tuple[int, bytes]] = []
        self.fails = False

    def save(
        self, index: int, term: int, chain: bytes, record: int, first: int, parts: list[bytes]
    ) -> None:
        if self.fails:
            raise StoreError("no room")
        self.saved.append((index, b"".join(parts)))


class Scene:
    """Checkpoints of a broker with one queue."""

    def __init__(self) -> None:
        self.settings = BrokerSettings()
        self.broker = Broker(self.settings)
        self.broker.apply_entry(1, [QueueRecord(1, "a")], 1)
        self.files = Files()
        self.store = SimpleNamespace(
            last_segment_base=1,
            applied_index=5,
            first_index=1,
            is_applying=False,
            place_of=lambda index: (1, bytes(16), 6),
        )
        self.checkpoints = Checkpoints(self.broker, self.store, self.files)  # type: ignore[arg-type]

    def step(self) -> None:
        """Let the loop do what a tick would do, to the end."""

        async def run() -> None:
            self.checkpoints.step()
            while self.checkpoints.snapshot is not None:
                self.checkpoints.step()
            if self.checkpoints.task is not None:
                await self.checkpoints.task

        asyncio.run(run())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_one_is_written_after_a_segment_was_sealed(scene) -> None:
    """
    And it holds the broker's state.
    """
    scene.step()
    assert scene.files.saved == []

    scene.store.last_segment_base = 5
    scene.step()
    ((index, body),) = scene.files.saved
    assert index == 5
    assert list(decode_state(body, scene.settings).by_name) == ["a"]


def test_one_segment_gives_one_checkpoint(scene) -> None:
    """
    Nothing is written again while nothing was sealed.
    """
    scene.store.last_segment_base = 5
    scene.step()
    scene.store.applied_index = 6
    scene.step()
    assert len(scene.files.saved) == 1


def test_it_waits_until_the_sealed_segment_is_applied(scene) -> None:
    """
    A checkpoint covers the whole of the segment that it follows.
    """
    scene.store.last_segment_base = 10
    scene.step()
    assert scene.files.saved == []

    scene.store.applied_index = 9
    scene.store.is_applying = True  # The next entry, in steps: the state is of neither.
    scene.step()
    assert scene.files.saved == []

    scene.store.is_applying = False
    scene.step()
    assert [index for index, _ in scene.files.saved] == [9]


def test_a_failure_costs_nothing_but_the_checkpoint(scene) -> None:
    """
    The next one is tried after the next segment.
    """
    scene.files.fails = True
    scene.store.last_segment_base = 5
    scene.step()
    assert scene.checkpoints.saved_index == 0

    scene.files.fails = False
    scene.store.last_segment_base = 6
    scene.step()
    assert scene.checkpoints.saved_index == 5


def test_a_clean_stop_writes_the_last_one_once(scene) -> None:
    """
    So the next start replays nothing; and nothing is written if nothing was applied since.
    """
    asyncio.run(scene.checkpoints.finish())
    asyncio.run(scene.checkpoints.finish())
    assert [index for index, _ in scene.files.saved] == [5]


def test_a_damaged_entry_costs_the_checkpoint_only(scene) -> None:
    """
    The entry it would end with cannot be read: the next segment's will do.
    """

    def damaged(index: int) -> tuple[int, bytes, int]:
        raise CorruptEntryError("rotten", index=index)

    place_of, scene.store.place_of = scene.store.place_of, damaged
    scene.store.last_segment_base = 5
    scene.step()
    assert scene.files.saved == []

    scene.store.place_of = place_of
    scene.store.last_segment_base, scene.store.applied_index = 9, 9
    scene.step()
    assert [index for index, _ in scene.files.saved] == [9]


def test_it_is_of_the_entry_it_began_behind(scene) -> None:
    """
    What is applied while it is turned into bytes is in the next one.
    """
    records = [QueueRecord(number, f"q{number}") for number in range(2, 2 * WORK_PER_STEP + 2)]
    scene.broker.apply_entry(2, records, 1)
    scene.store.last_segment_base = 5

    async def run() -> None:
        scene.checkpoints.step()
        assert scene.checkpoints.snapshot is not None
        scene.broker.apply_entry(90_000, [QueueRecord(90_000, "late")], 1)
        scene.store.applied_index = 6
        scene.checkpoints.step()
        scene.checkpoints.step()
        await scene.checkpoints.task

    asyncio.run(run())
    ((index, body),) = scene.files.saved
    assert index == 5
    assert len(decode_state(body, scene.settings).by_name) == 2 * WORK_PER_STEP + 1
    assert scene.broker.state.snapshot is None


def test_it_goes_on_until_the_time_for_it_is_over(scene) -> None:
    """
    A tick does as many pieces as fit into its slice, and one at least.
    """
    records = [QueueRecord(number, f"q{number}") for number in range(2, 5 * WORK_PER_STEP + 2)]
    scene.broker.apply_entry(2, records, 1)
    scene.store.last_segment_base = 5
    asked: list[bool] = []

    def is_spent() -> bool:
        asked.append(True)
        return len(asked) == 3

    async def run() -> None:
        scene.checkpoints.step(is_spent)
        assert scene.checkpoints.snapshot is not None
        assert len(asked) == 3
        scene.checkpoints.step(lambda: False)
        await scene.checkpoints.task

    asyncio.run(run())
    ((_, body),) = scene.files.saved
    assert len(decode_state(body, scene.settings).by_name) == 5 * WORK_PER_STEP + 1


def test_a_log_begun_anew_ends_it(scene) -> None:
    """
    It would be of a state that nobody has any more.
    """
    scene.store.last_segment_base = 5
    assert scene.checkpoints.begin()
    scene.broker.begin_anew()
    assert scene.checkpoints.advance(1) is None
    assert scene.checkpoints.snapshot is None
    assert scene.files.saved == []


def test_a_clean_stop_begins_it_anew(scene) -> None:
    """
    One that is under way is of an older state than the last.
    """
    scene.store.last_segment_base = 5
    assert scene.checkpoints.begin()
    scene.broker.apply_entry(9, [QueueRecord(2, "b")], 1)
    scene.store.applied_index = 6
    asyncio.run(scene.checkpoints.finish())
    ((index, body),) = scene.files.saved
    assert index == 6
    assert sorted(decode_state(body, scene.settings).by_name) == ["a", "b"]
