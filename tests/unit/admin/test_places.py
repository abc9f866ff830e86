"""
Who has a place on the admin port when it is full.
"""

from __future__ import annotations

import logging

import pytest

from holdfast.admin.person import CLUSTER, MACHINE, MEMBERS
from holdfast.admin.places import GUEST_COUNT_MAX, Held, Places, guest_count_max
from holdfast.transport.inside import TELL_SECONDS


def from_here(name: str) -> bool:
    return name.startswith("here")


class Port:
    """A port of eight places, of which users may hold six, and which connections are at work."""

    def __init__(self, count_max: int = 8) -> None:
        self.busy: set[str] = set()
        self.asking: set[str] = set()
        self.places = Places[str](
            count_max,
            is_idle=lambda it: it not in self.busy,
            leaves_waiting=lambda it: it not in self.asking,
            source_of=lambda it: "127.0.0.1" if from_here(it) else "192.0.2.1",
            is_here=from_here,
        )
        self.places.count_max = count_max  # Without the room of guests beside it.

    def come(self, *names: str) -> list[str]:
        """Let them come as guests; gives who left for them."""
        left = [self.places.enter(name, 0.0) for name in names]
        return [it for it in left if it is not None]

    def hold(self, who: str, *names: str, is_busy: bool = False) -> list[Held]:
        """Let them come, and be known."""
        self.come(*names)
        self.busy |= set(names) if is_busy else set()
        held = [self.places.hold(name, who, 0.0) for name in names]
        for it in held:
            self.places.leave(it.finishing or "")
        return held


def test_the_oldest_guest_makes_room() -> None:
    """Whoever comes is let in; who is known stays, also when others come."""
    port = Port(4)
    port.hold("eve", "e1", "e2")
    assert port.come("a", "b", "c", "d") == ["a", "b"]
    assert len(port.places) == 4
    assert port.places.turned_away == 2


@pytest.mark.parametrize("is_busy", [True, False])
def test_one_who_is_known_leaves_room_for_whoever_comes(is_busy: bool) -> None:
    """Her next connection is no better than a stranger's, unless she gives one up for it."""
    port = Port()
    held = port.hold("eve", *(f"e{number}" for number in range(8)), is_busy=is_busy)
    assert [it.is_held for it in held] == [True] * 6 + [not is_busy] * 2
    assert [it.finishing for it in held[6:]] == ([None] * 2 if is_busy else ["e0", "e1"])
    for number in range(5):
        (is_in,) = port.hold(MACHINE, f"machine{number}")
        assert is_in == Held(is_held=True)
        port.places.leave(f"machine{number}")


def test_who_has_more_gives_way_to_who_has_fewer() -> None:
    """
    One that does nothing, and never so that it would be taken back. In the middle of a request
    nobody gives way but to one who has none, and finishes first: who comes and goes cut off those
    who are at work.
    """
    port = Port()
    port.hold("eve", *(f"e{number}" for number in range(5)), is_busy=True)
    port.hold("bob", "b0", is_busy=True)
    port.busy.discard("e3")
    assert port.hold("ann", "a0", is_busy=True) == [Held(True, "e3")]
    assert port.hold("ann", "a1", is_busy=True) == [Held(is_held=False)]
    port.busy -= {"e0", "e1"}
    assert port.hold("ann", "a2", is_busy=True) == [Held(True, "e0")]
    assert port.hold("eve", "e9", is_busy=True) == [Held(True, "e1")], "her own"
    assert port.hold("bob", "b1", is_busy=True) == [Held(is_held=False)]
    assert port.hold("cid", "c0", is_busy=True) == [Held(True, "e2")], "he has none"
    assert port.hold("cid", "c1", is_busy=True) == [Held(is_held=False)], "nobody has more than two"


def test_idle_ones_of_all_who_have_more_go_before_a_busy_one() -> None:
    """Also where who has the most is at work with all of them."""
    port = Port()
    port.hold("eve", *(f"e{number}" for number in range(4)), is_busy=True)
    port.hold("bob", "b0", "b1")
    assert port.hold("ann", "a0", is_busy=True) == [Held(True, "b0")]
    assert port.hold("cid", "c0", is_busy=True) == [Held(True, "e0")], "one each is left"


def test_few_finish_what_they_are_in_the_middle_of() -> None:
    """
    In the places of what other nodes pass on: more of them would be more than the port has. The
    oldest makes room, also for whoever comes where there is no guest.
    """
    port = Port()
    port.places.count_max = 8 + guest_count_max(8)
    port.hold("eve", *(f"e{number}" for number in range(6)), is_busy=True)
    port.come("a", "b", "c", "d")
    first = [port.places.hold(name, f"user {name}", 0.0) for name in "abcd"]
    assert [it.finishing for it in first] == ["e0", "e1", "e2", "e3"]
    assert [it.leaving for it in first] == [None, None, "e0", "e1"]
    assert len(port.places) == 8
    port.places.leave("e2")
    assert port.places.hold("e3", "eve", 0.0) == Held(is_held=True), "it is no place of hers"
    assert len(port.places) == 7
    port.places.count_max = 7
    assert port.come("x") == ["e3"]
    assert port.come("y") == ["x"]


def test_what_other_nodes_pass_on_has_places_of_its_own() -> None:
    """
    Readers with the secret's word, or users, who hold all of theirs and are at work, leave room for
    changes that other nodes pass on, and cut none of them off. More of these are one among others.
    """
    port = Port()
    port.places.count_max = 8 + guest_count_max(8)
    port.hold(CLUSTER, *(f"c{number}" for number in range(6)), is_busy=True)
    assert port.hold(MEMBERS, "m0", "m1", is_busy=True) == [Held(is_held=True)] * 2
    assert port.hold("eve", "e0", is_busy=True) == [Held(True, "c0")]
    assert port.hold(MEMBERS, "m2", is_busy=True) == [Held(is_held=False)], "it is the secret's now"
    assert port.places.hold("m0", MEMBERS, 0.0) == Held(is_held=True)
    port.places.leave("m0")
    assert port.places.hold("m2", MEMBERS, 0.0) == Held(is_held=True)


def test_one_who_is_being_answered_stays_while_others_show_nothing() -> None:
    """Who floods the port with sockets ends no request of others; where all ask the oldest goes."""
    port = Port(4)
    port.come("a", "b", "c", "d")
    port.asking |= {"a", "c"}
    assert port.come("e", "f", "g") == ["b", "d", "e"]
    port.asking |= {"f", "g"}
    assert port.come("h") == ["a"]


def test_there_is_room_for_guests_beside_the_places_of_users() -> None:
    """As many come in at once as are taken in some turns of the loop, whatever users hold."""
    places = Places[int](8, is_idle=lambda _: False, leaves_waiting=lambda _: True)
    for number in range(6):
        places.enter(number, 0.0)
        assert places.hold(number, "eve", 0.0).is_held
    assert [places.enter(number, 0.0) for number in range(6, 24)] == [None] * 18
    assert places.enter(100, 0.0) == 6
    assert [guest_count_max(it) for it in (8, 64, 10_000)] == [16, 128, 2 * GUEST_COUNT_MAX]


@pytest.mark.parametrize("is_asking", [False, True])
@pytest.mark.parametrize(("crowd", "one"), [("away", "here"), ("here", "away")])
def test_who_comes_from_elsewhere_fills_no_place_of_this_machine(
    crowd: str, one: str, is_asking: bool
) -> None:
    """
    Nor the other way round: each line has eight places, and takes what is free beside them until
    it is wanted. Whether those that are there ask for something makes no difference.
    """
    port = Port()
    port.places.count_max = 8 + guest_count_max(8)
    names = [f"{crowd}{number}" for number in range(24)]
    port.asking |= set(names) if is_asking else set()
    assert port.come(*names) == []
    assert port.come(*(f"{one}{number}" for number in range(8))) == names[:8]
    assert port.come(f"{one}8") == [f"{one}0"]
    assert port.come(f"{crowd}24") == [names[8]]


def test_the_nodes_own_user_is_bound_by_nothing() -> None:
    """Where even his connections fill the port one of them goes that does nothing."""
    port = Port(4)
    assert [it.is_held for it in port.hold(MACHINE, "m0", "m1", "m2", "m3")] == [True] * 4
    port.busy |= {"m0", "m2", "m3"}
    assert port.come("next") == ["m1"]
    port.hold(MACHINE, "next", is_busy=True)
    assert port.places.enter("last", 0.0) == "last"
    assert len(port.places) == 4


def test_it_counts_who_has_sent_the_last_request() -> None:
    """Who was removed, or showed something wrong, has no place by what he was before."""
    port = Port(4)
    port.hold("eve", "e0", "e1")
    assert port.places.hold("e0", "", 0.0) == Held(is_held=True)
    assert port.places.hold("e1", "ann", 0.0) == Held(is_held=True)
    assert port.come("a", "b", "c") == ["e0"]


def test_who_has_left_is_forgotten() -> None:
    """Twice, or after he had to; and a request of his that is still answered takes no place."""
    port = Port(2)
    port.hold("eve", "e0")
    port.places.leave("e0")
    port.places.leave("e0")
    assert port.places.hold("e0", "eve", 0.0) == Held(is_held=True)
    assert len(port.places) == 0
    assert port.come("a", "b") == []


def test_a_full_port_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever opens sockets in a loop must not fill the log as well."""
    places = Places[int](1, is_idle=lambda _: True, leaves_waiting=lambda _: True)
    places.count_max = 1
    with caplog.at_level(logging.WARNING):
        for number in range(400):
            places.enter(number, number / 1000)
    assert len(caplog.messages) == 1
    places.enter(400, TELL_SECONDS + 1)
    assert caplog.messages[1].endswith("; 400 closed so far")
    assert "the admin port is full with 1 connections" in caplog.messages[0]
