"""
What must be true of a broker's messages, kept beside the broker by its property test.
"""

from __future__ import annotations

from typing import Any

from holdfast.model.facts import MessageFacts

NAMES = ("a", "b")
QUEUES = (*NAMES, "dead")
SEVERAL = (("a", "b"), ("b", "a"), ("b", "dead", "a"))
PLACE = tuple[str, bytes]
"""A message: its queue's name and its body, which is sent to a queue only once."""


class Model:
    """What must be true: which messages live, in what order they were sent, who saw them."""

    def __init__(self) -> None:
        self.order: dict[PLACE, int] = {}
        self.sent_count = 0
        """Also of what was sent again, as a message that is rejected once more."""
        self.live: set[PLACE] = set()
        """Stored and applied, or non-persistent and there."""
        self.stored: set[PLACE] = set()
        """Everything that was ever stored."""
        self.transient: set[PLACE] = set()
        self.fresh: set[PLACE] = set()
        """Sent in this leadership: no reason to flag it but a delivery before."""
        self.leaving: set[PLACE] = set()
        """To be gone by what is under way: never delivered again in this leadership."""
        self.seen: set[PLACE] = set()
        self.claimed: set[PLACE] = set()
        """Acknowledged late by somebody who had it from a former leader, it says."""
        self.overtaken: set[PLACE] = set()
        """About to be moved: should that be lost, later ones may have gone before."""
        self.returned: set[PLACE] = set()
        """Given back, to go out before anything new."""
        self.coming: dict[PLACE, int] = {}
        """Rejected, to come again once the log says so, and not before it is due, in ms."""
        self.uncounted: set[PLACE] = set()
        """Those of them of which the log does not say so yet."""
        self.newest_seen: dict[tuple[Any, ...], int] = {}
        self.last: dict[str, int] = {}
        """Producers: the last number stored."""
        self.groups: dict[bytes, int] = {}
        """By body: the group that a message is in, whatever becomes of it."""

    def facts_of(self, body: bytes) -> MessageFacts | None:
        """Give what a message is beside its body; see `group_machine`."""
        return None

    def sent(self, queue: str, body: bytes) -> PLACE:
        place = (queue, body)
        self.sent_count += 1
        self.order[place] = self.sent_count
        self.fresh.add(place)
        return place

    def store(self, place: PLACE) -> None:
        self.live.add(place)
        self.stored.add(place)

    def settle(self, places: list[PLACE]) -> None:
        self.live.difference_update(places)
        self.fresh.difference_update(places)

    def of(self, queue: str) -> list[PLACE]:
        """
        Give what is on a queue, or on its way there.

        What a former leader took with it is neither, and its client may do the same again: a
        message whose rejection was lost is rejected once more, and is the same dead letter then.
        """
        there = self.live | self.fresh
        return [place for place in self.order if place[0] == queue and place in there]

    def delivered(self, place: PLACE, *, flagged: bool) -> None:
        assert place in self.live, f"{place} is not there, or not any more"
        assert place not in self.leaving, f"{place} is settled"
        if place in self.seen:
            assert flagged, f"{place} was delivered before and does not say so"
        elif place in self.claimed:
            assert flagged or place in self.transient, f"{place} was claimed and says nothing"
        else:
            self.seen_first(place)
            assert not (flagged and place in self.fresh), f"{place} is new and says it is not"
        self.seen.add(place)
        self.returned.discard(place)
        self.coming.pop(place, None)

    def lane_of(self, place: PLACE) -> tuple[Any, ...]:
        """Give what a message keeps its order in: its queue, or a part of that."""
        return place[:1]

    def seen_first(self, place: PLACE) -> None:
        """Nothing new of a lane is delivered after what was sent later."""
        lane, order = self.lane_of(place), self.order[place]
        newest = self.newest_seen.get(lane, 0)
        assert order > newest or place in self.overtaken, f"{place} is out of order"
        self.newest_seen[lane] = max(order, newest)

    def changes_leader(self) -> None:
        self.live -= self.transient
        # A purge on its way held back old messages only; a new transient one may have gone out.
        self.seen -= self.transient
        self.newest_seen = {}
        for place in self.seen:
            lane = self.lane_of(place)
            self.newest_seen[lane] = max(self.newest_seen.get(lane, 0), self.order[place])
        for each in (self.transient, self.fresh, self.leaving, self.returned):
            each.clear()
        self.coming.clear()
        self.uncounted.clear()
