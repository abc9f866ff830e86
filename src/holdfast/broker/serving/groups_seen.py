"""
Of which message groups a consumer was given something: the next of another is the first for it.

It is told so by a header, so that it can drop what it kept of a group that it had before. Names are
known by their hashes, no more than so many of one consumer, and of all together; then it begins
anew. So it may be told of a first one that is none, and never misses one.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from typing import Final

SEEN_COUNT_MAX: Final = 10_000
"""Groups that are known of one consumer."""
KNOWN_COUNT_MAX: Final = 500_000
"""Groups that are known of all: each takes 70 to 350 bytes, measured, and a client may have ten
thousand consumers."""


class GroupsKnown:
    """How many groups are known of all consumers of a leadership."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class GroupsSeen:
    """The groups of one consumer, by their buckets."""

    __slots__ = ("_bucket_count", "_by_bucket", "_count", "_known", "salt")

    def __init__(self, bucket_count: int, salt: int = 0, known: GroupsKnown | None = None) -> None:
        self._bucket_count = bucket_count
        self.salt = salt
        """A number that comes of the consumer's names: by it buckets choose among consumers."""
        self._by_bucket: dict[int, set[int]] = {}
        self._count = 0
        self._known = known or GroupsKnown()

    def is_first(self, group_hash: int, name: str, *, closes: bool) -> bool:
        """
        Whether a message that is handed to the consumer is the first of its group.

        Args:
            closes: It is the last of it; the next one is a first again.
        """
        bucket, number = group_hash % self._bucket_count, hash(name)
        seen = self._by_bucket.get(bucket)
        is_known = seen is not None and number in seen
        if closes:
            if seen is not None and is_known:
                seen.discard(number)
                self._add(-1)
                if not seen:
                    del self._by_bucket[bucket]
            return not is_known
        if is_known:
            return False
        if self._count >= SEEN_COUNT_MAX or self._known.count >= KNOWN_COUNT_MAX:
            self.clear()
            seen = None
        if seen is None:
            seen = self._by_bucket[bucket] = set()
        seen.add(number)
        self._add(1)
        return True

    def _add(self, count: int) -> None:
        self._count += count
        self._known.count += count

    def forget(self, bucket: int) -> None:
        """Know nothing of a bucket: somebody else may have had messages of it meanwhile."""
        self._add(-len(self._by_bucket.pop(bucket, ())))

    def clear(self) -> None:
        """Know nothing any more."""
        self._by_bucket = {}
        self._add(-self._count)
