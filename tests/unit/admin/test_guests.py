"""
Who goes of those who have shown nothing at the admin port.
"""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.admin.guests import LOOKED_AT_MAX, Guests

PLACES = 64
SITES = [f"2001:db8:{number:x}::1" for number in range(PLACES)]


class Line:
    """A line, those in it called by where they are from and a number."""

    def __init__(self) -> None:
        self.asking: set[str] = set()
        self.asked_count = 0
        self._numbers = count()
        self.guests = Guests[str](
            PLACES,
            count_max=PLACES,
            source_of=lambda it: it.partition("@")[2],
            leaves_waiting=self._leaves_waiting,
        )

    def _leaves_waiting(self, guest: str) -> bool:
        self.asked_count += 1
        return guest not in self.asking

    def come(self, *addresses: str, is_asking: bool = False) -> list[str]:
        """Let one come from each of these; gives what they are called."""
        names = [f"{next(self._numbers)}@{it}" for it in addresses]
        for name in names:
            self.guests.add(name)
        self.asking |= set(names) if is_asking else set()
        return names

    def leaving(self, address: str) -> str | None:
        return self.guests.leaving_for(f"next@{address}")


def test_nobody_leaves_an_empty_line() -> None:
    """Whoever has left it is forgotten, also twice."""
    line = Line()
    assert line.leaving("10.0.0.1") is None
    (one,) = line.come("10.0.0.1")
    assert one in line.guests
    line.guests.discard(one)
    line.guests.discard(one)
    assert len(line.guests) == 0
    assert line.leaving("10.0.0.1") is None


def test_of_one_address_who_leaves_us_waiting_goes_before_who_waits_for_us() -> None:
    """The oldest of them first; where all of those that came first ask, the oldest."""
    line = Line()
    asking = line.come("10.0.0.1", is_asking=True)
    silent = line.come("10.0.0.1", "10.0.0.1")
    assert line.leaving("10.0.0.1") == silent[0]
    line.asking |= set(silent)
    assert line.leaving("10.0.0.1") == asking[0]


def test_a_flood_of_requests_from_one_address_gives_way_to_others() -> None:
    """Who comes from elsewhere, or has begun to be answered there, is not closed for it."""
    line = Line()
    other = line.come("10.0.0.9", is_asking=True)
    flood = line.come(*["10.0.0.1"] * (PLACES - 1), is_asking=True)
    assert line.leaving("10.0.0.1") == flood[0]
    assert line.leaving("10.0.0.9") == flood[0]
    line.come("10.0.0.8")
    assert line.leaving("10.0.0.7") == flood[0], "it has more than its share"
    assert line.leaving("10.0.0.1") == flood[0]
    assert other[0] in line.guests


def test_two_of_one_address_are_answered_while_silent_ones_come_from_everywhere() -> None:
    """A share each site has to itself: within it nobody who is being answered goes for others."""
    line = Line()
    line.come(*["10.0.0.1"] * 2, is_asking=True)
    silent = line.come(*SITES[:-2])
    assert line.leaving(SITES[-1]) == silent[0]
    assert line.leaving("10.0.0.1") == silent[0]


def test_of_sites_with_as_many_the_oldest_goes() -> None:
    """So whoever comes is always taken, also where each of them waits for an answer."""
    line = Line()
    there = line.come(*SITES, is_asking=True)
    assert line.leaving("10.0.0.1") == there[0]
    assert line.leaving(SITES[3]) == there[3], "its own, where it has one"


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.2"])
def test_few_are_looked_at_for_each_that_comes(address: str) -> None:
    """However many are there, and whether they are of one address or of many."""
    line = Line()
    line.come(*["10.0.0.1"] * 500, *SITES, is_asking=True)
    line.come(*["10.0.0.1"] * 10, *SITES)
    line.asked_count = 0
    assert line.leaving(address) is not None
    assert line.asked_count <= 2 * LOOKED_AT_MAX
