"""
Who was taken at the door and waits for a place: how many, whose turn it is, and who goes.
"""

from __future__ import annotations

from holdfast.transport.porch import ROOM_MIN, Porch


class Fake:
    """Somebody who was taken."""

    def __init__(self, name: str, source: str, *, has_spoken: bool = True) -> None:
        self.name = name
        self.source = source
        self.has_spoken = has_spoken

    def begin(self) -> None: ...

    def proceed(self) -> None: ...

    def give_up(self, reason: str) -> None: ...


def filled(lent: list[int], *sources: str) -> Porch:
    porch = Porch(lambda: lent[0])
    for number, source in enumerate(sources):
        assert porch.enter(Fake(f"{number}", source)) is None
    return porch


def looked(porch: Porch, count: int) -> list[str]:
    return [it.name for it in porch.looks(count)]  # type: ignore[attr-defined]


def test_who_came_last_of_who_has_the_most_goes_where_too_many_wait() -> None:
    """So a stranger's crowd fills what it has filled, and a fleet of another site has its half."""
    porch = filled([ROOM_MIN], *["10.0.0.1"] * ROOM_MIN)
    one_more = Fake("more", "10.0.0.1")
    assert porch.enter(one_more) is one_more, "and nobody else"
    gone = [porch.enter(Fake("own", "10.0.0.2")) for _ in range(ROOM_MIN)]
    names = [it.name for it in gone if it is not None]
    last = range(ROOM_MIN - 1, ROOM_MIN // 2 - 1, -1)
    assert names == [*map(str, last), *["own"] * (ROOM_MIN // 2)]
    assert len(porch) == ROOM_MIN


def test_the_door_is_shut_only_where_nobody_has_more_than_a_share() -> None:
    """Who is of a site with fewer could stand behind those that are closed on."""
    porch = filled([ROOM_MIN], *["10.0.0.1"] * (ROOM_MIN - 1))
    assert porch.is_open, "there is room for one"
    porch.enter(Fake("last", "10.0.0.1"))
    assert porch.is_open, "somebody gives way"
    assert not filled([ROOM_MIN], *(f"10.0.0.{it}" for it in range(ROOM_MIN))).is_open


def test_what_is_lent_no_more_is_given_back() -> None:
    """Those inside the clients' ports come first; and a porch for a few is none."""
    lent = [100]
    porch = filled(lent, *["10.0.0.1"] * 40, *["10.0.0.2"] * 50)
    lent[0] = 60
    gone = list(porch.surplus())
    assert {it.source for it in gone[:11]} == {"10.0.0.1", "10.0.0.2"}
    assert [it.source for it in gone].count("10.0.0.2") == 20
    assert (len(porch), len(gone)) == (60, 30)
    lent[0] = ROOM_MIN - 1
    assert (porch.count_max, porch.is_open) == (0, True), "there are some that have to go"
    assert len(list(porch.surplus())) == 60
    assert (len(porch), porch.is_open) == (0, False)


def test_each_site_has_its_turn_and_who_is_silent_is_passed_over() -> None:
    """A hundred that say nothing stand before no one that does, also of their own address."""
    porch = filled([1000], "10.0.0.1", "10.0.0.1", "10.0.0.2")
    assert looked(porch, 8) == ["0", "2"], "one of each"
    assert looked(porch, 1) == ["0"]
    assert looked(porch, 8) == ["2", "0"], "and it is another one's turn then"
    silent = Porch(lambda: 1000)
    for number in range(5):
        silent.enter(Fake(f"{number}", "10.0.0.1", has_spoken=number == 3))
    assert looked(silent, 8) == ["0", "1", "2", "3"]
    assert looked(silent, 8) == ["3"], "from then on it is first"
    for it in list(silent.looks(1)):
        silent.discard(it)
    assert looked(silent, 3) == ["4", "0", "1"]
    assert looked(Porch(lambda: 1000), 3) == []
