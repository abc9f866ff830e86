"""
The arrays of one chunk: columns that are there only where something is said, and copies of them.
"""

from __future__ import annotations

from holdfast.broker.lasting.chunk import Chunk
from holdfast.broker.lasting.returns import NEVER, Returned


def full_chunk() -> Chunk:
    """A chunk in which slot 5 has everything."""
    chunk = Chunk(5)
    chunk.make_room(0)
    chunk.live[0] = 1
    chunk.count = 1
    chunk.put_priority(5, 9)
    chunk.put_group_hash(5, 77)
    chunk.put_expires(5, 1_000)
    chunk.put_repeats(5, 3)
    chunk.put_returned(5, Returned(attempts=1))
    return chunk


def columns(chunk: Chunk) -> list[object]:
    returned = None if chunk.returns is None else chunk.returns.of(5)
    known = (chunk.priorities, chunk.group_hashes, chunk.expires, chunk.repeats)
    return [returned, *(None if column is None else [*column] for column in known)]


def test_a_column_begins_with_the_first_that_has_something_to_say() -> None:
    """And goes to the last slot that has; a usual priority is nothing, and 0 is something."""
    empty = Chunk(0)
    empty.put_repeats(3, 0)
    empty.put_returned(3, NEVER)
    assert columns(empty) == [None] * 5
    zeros = [0] * 5
    assert columns(full_chunk()) == [
        Returned(attempts=1),
        [*zeros, 10],
        [*zeros, 77],
        [*zeros, 1_000],
        [*zeros, 3],
    ]
    lowest = Chunk(0)
    lowest.put_priority(1, 0)
    assert lowest.priorities == b"\0\1"


def test_what_is_changed_in_a_copy_is_changed_there_only() -> None:
    """In every column, so a checkpoint has what was so as it began."""
    chunk = full_chunk()
    before = columns(chunk)
    twin = chunk.copy()
    assert columns(twin) == before
    twin.put_priority(5, 1)
    twin.put_group_hash(5, 1)
    twin.put_expires(5, 1)
    twin.put_repeats(5, 1)
    twin.put_returned(5, Returned(attempts=2))
    twin.make_room(3)
    twin.live[0] = 0
    assert columns(chunk) == before
    assert chunk.live == b"\1"
    assert all(mine != theirs for mine, theirs in zip(columns(twin), before, strict=True))


def test_a_column_forgets_what_came_back_and_is_gone() -> None:
    """A chunk of which nothing that lives came back has no such column."""
    chunk = full_chunk()
    chunk.put_returned(5, NEVER)
    assert chunk.returns is None


def test_nothing_is_said_of_what_is_gone() -> None:
    """In no column, and where there is none nothing has to be forgotten."""
    chunk = full_chunk()
    chunk.put_move(5, 1_234)
    for each in (chunk, chunk.copy()):
        assert each.has_columns
        each.clear(5)
        zeros = [0] * 6
        assert columns(each) == [None, zeros, zeros, zeros, zeros]
        assert each.moves is not None
        assert [*each.moves] == [0]
    assert not Chunk(0).has_columns


def test_room_is_made_before_and_behind() -> None:
    """Slots stay what they are: the columns by slot need no room before theirs."""
    chunk = full_chunk()
    assert chunk.make_room(2) == 2
    assert chunk.live == b"\1\0\0"
    assert chunk.make_room(-4) == 0
    assert chunk.start == 1
    assert chunk.live == b"\0\0\0\0\1\0\0"
    assert len(chunk.record_numbers) == len(chunk.sizes) == 7
    assert chunk.priorities is not None
    assert chunk.priorities[5] == 10
