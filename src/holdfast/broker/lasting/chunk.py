"""
What is known of up to 512 neighbouring messages of a queue, in arrays; see `sequence_index`.

Three arrays every chunk has, from its first live slot on. The others only those have in which some
message has something to say: by slot, up to the last one that has.
"""

from __future__ import annotations

from array import array
from typing import Final

from holdfast.broker.lasting.returns import NEVER, Returned, Returns
from holdfast.model.facts import PRIORITY_DEFAULT, PRIORITY_MAX

CHUNK_SHIFT: Final = 9
CHUNK_SIZE: Final = 1 << CHUNK_SHIFT
HIGHEST_FIRST: Final = tuple(range(PRIORITY_MAX, -1, -1))
"""All priorities."""


class Chunk:
    """The arrays of up to 512 neighbouring sequences, from slot `start` to the last one put."""

    __slots__ = (
        *("count", "expires", "group_hashes", "has_columns", "live", "moves", "priorities"),
        *("record_numbers", "repeats", "returns", "sizes", "start"),
    )

    def __init__(self, start: int) -> None:
        self.start = start
        self.record_numbers = array("Q")
        self.sizes = array("I")
        self.live = bytearray()
        self.moves: array[int] | None = None
        """The number of the record that moved each here, 0 for who was sent here."""
        self.count = 0
        self.has_columns = False
        """Whether there is, or was, any of those that most have not."""
        self.returns: Returns | None = None
        """What came back of it; None, as of most, if nothing did that still lives."""
        self.group_hashes: array[int] | None = None
        """Of the message group of each, by slot, up to the last one that is in any; 0: in none."""
        self.expires: array[int] | None = None
        """When each expires, by slot, up to the last one of which it was said; 0: never."""
        self.repeats: array[int] | None = None
        """How often each is sent after the next time, in the same way; 0: it is not."""
        self.priorities: bytearray | None = None
        """One more than the priority of each, in the same way; 0: it has the usual one."""

    def copy(self) -> Chunk:
        """Give one that is the same, and stays so."""
        twin = Chunk(self.start)
        twin.record_numbers = self.record_numbers[:]
        twin.sizes = self.sizes[:]
        twin.live = self.live[:]
        twin.moves = None if self.moves is None else self.moves[:]
        twin.count, twin.has_columns = self.count, self.has_columns
        twin.returns = None if self.returns is None else self.returns.copy()
        twin.group_hashes = None if self.group_hashes is None else self.group_hashes[:]
        twin.expires = None if self.expires is None else self.expires[:]
        twin.repeats = None if self.repeats is None else self.repeats[:]
        twin.priorities = None if self.priorities is None else self.priorities[:]
        return twin

    def clear(self, slot: int) -> None:
        """Forget what the columns say of a message that lives no more."""
        if self.returns is not None:
            self.put_returned(slot, NEVER)
        if self.expires is not None and slot < len(self.expires):
            self.expires[slot] = 0
        if self.repeats is not None:
            self.put_repeats(slot, 0)
        if self.moves is not None:
            self.moves[slot - self.start] = 0
        if self.group_hashes is not None and slot < len(self.group_hashes):
            self.group_hashes[slot] = 0
        if self.priorities is not None and slot < len(self.priorities):
            self.priorities[slot] = 0

    def put_move(self, slot: int, move: int) -> None:
        """Note which record moved a live message here, 0 for who was sent here."""
        moves = self.moves
        if moves is None:
            moves, self.has_columns = array("Q", bytes(8 * len(self.live))), True
            self.moves = moves
        moves[slot - self.start] = move

    def put_priority(self, slot: int, priority: int) -> None:
        """Note which priority a live message has that has not the usual one."""
        priorities = self.priorities
        if priorities is None:
            priorities, self.has_columns = bytearray(), True
            self.priorities = priorities
        priorities.extend(bytes(max(0, slot + 1 - len(priorities))))
        priorities[slot] = priority + 1

    def next_of(self, priority: int, slot: int) -> int:
        """Give the first slot from this one on with a live message of a priority, -1 for none."""
        priorities, start = self.priorities or b"", self.start
        if priority != PRIORITY_DEFAULT:
            return priorities.find(priority + 1, slot)
        live, known = self.live, len(priorities) - start
        place = live.find(1, max(0, slot - start))
        while 0 <= place < known and priorities[place + start]:
            place = live.find(1, place + 1)
        return place + start if place >= 0 else -1

    def priorities_from(self, slot: int) -> list[int]:
        """Give the priorities that there may be from a slot on."""
        column = self.priorities
        if column is None:
            return [PRIORITY_DEFAULT]
        found = [each for each in HIGHEST_FIRST if column.find(each + 1, slot) >= 0]
        if column.find(0, slot) >= 0 or len(column) < self.start + len(self.live):
            found.append(PRIORITY_DEFAULT)
        return found

    def put_group_hash(self, slot: int, group_hash: int) -> None:
        """Note in which group a live message is."""
        hashes = self.group_hashes
        if hashes is None:
            hashes, self.has_columns = array("I"), True
            self.group_hashes = hashes
        missing = slot + 1 - len(hashes)
        if missing > 0:
            hashes.frombytes(bytes(4 * missing))
        hashes[slot] = group_hash

    def put_expires(self, slot: int, expires_ms: int) -> None:
        """Note when a live message expires."""
        expires = self.expires
        if expires is None:
            expires, self.has_columns = array("Q"), True
            self.expires = expires
        missing = slot + 1 - len(expires)
        if missing > 0:
            expires.frombytes(bytes(8 * missing))
        expires[slot] = expires_ms

    def put_repeats(self, slot: int, repeats: int) -> None:
        """Note how often a live message is sent after the next time."""
        known = self.repeats
        if known is None:
            if not repeats:
                return
            known, self.has_columns = array("H"), True
            self.repeats = known
        missing = slot + 1 - len(known)
        if missing > 0:
            known.frombytes(bytes(2 * missing))
        known[slot] = repeats

    def put_returned(self, slot: int, returned: Returned) -> None:
        """Note what came of a live message so far."""
        returns = self.returns
        if returns is None:
            if returned == NEVER:
                return
            returns, self.has_columns = Returns(), True
            self.returns = returns
        returns.put(slot, returned)
        if not returns.count:
            self.returns = None

    def make_room(self, place: int) -> int:
        """Add dead slots up to a place outside the arrays, and give the place it has then."""
        if place < 0:
            self.start += place
            self.record_numbers = array("Q", bytes(-8 * place)) + self.record_numbers
            self.sizes = array("I", bytes(-4 * place)) + self.sizes
            self.live = bytearray(-place) + self.live
            if self.moves is not None:
                self.moves = array("Q", bytes(-8 * place)) + self.moves
            return 0
        missing = place + 1 - len(self.live)
        self.record_numbers.frombytes(bytes(8 * missing))
        self.sizes.frombytes(bytes(4 * missing))
        self.live.extend(bytes(missing))
        if self.moves is not None:
            self.moves.frombytes(bytes(8 * missing))
        return place
