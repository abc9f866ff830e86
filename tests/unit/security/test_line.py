"""Whoever waits for a look: networks take turns, and none is in another's way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.security import line as module
from holdfast.security.line import Line


def take_all(line: Line[str]) -> list[str]:
    """Everybody in the order in which they are served."""
    return [it for it in iter(line.take, None) if it is not None]


def test_networks_take_turns() -> None:
    """Whoever sends a crowd stands behind it himself, and before nobody else."""
    line: Line[str] = Line()
    for number in range(50):
        assert line.add("a", f"a{number}") is None
    assert line.add("b", "b0") is None
    assert line.add("c", "c0") is None
    assert [line.take() for _ in range(4)] == ["a0", "b0", "c0", "a1"]
    assert line.add("b", "b1") is None
    assert [line.take() for _ in range(3)] == ["a2", "b1", "a3"]
    assert len(take_all(line)) == 46
    assert line.take() is None


def test_where_nobody_else_waits_one_network_has_all_the_room(monkeypatch) -> None:
    """The users behind one address come back all at once, and each of them is right."""
    monkeypatch.setattr(module, "COUNT_MAX", 250)
    line: Line[str] = Line()
    assert {line.add("a", f"{it}") for it in range(250)} == {None}
    assert line.add("a", "too much") == "too much"
    assert line.add("b", "other") == "249"
    assert len(line) == 250


def test_where_all_is_full_who_has_most_loses_the_last_of_his(monkeypatch) -> None:
    """Where nobody has more than he who comes, who has had his time makes room for him."""
    monkeypatch.setattr(module, "COUNT_MAX", 4)
    line: Line[str] = Line()
    for name in ("a0", "a1", "a2", "b0"):
        assert line.add(name[0], name) is None
    assert line.add("c", "c0") == "a2"
    assert line.add("d", "d0") == "a1"
    assert line.add("a", "a3") == "a3"
    assert line.add("e", "e0") == "a0"
    assert line.add("f", "f0") == "b0"
    assert take_all(line) == ["c0", "d0", "e0", "f0"]


def test_strangers_of_however_many_networks_stand_in_nobodys_way(monkeypatch) -> None:
    """
    A thousand sites with one name each kept out every password that was not looked at before, for
    as long as they went on: those from where somebody came in lately have a line of their own.
    """
    monkeypatch.setattr(module, "COUNT_MAX", 40)
    line: Line[str] = Line()
    for number in range(100):
        line.add(f"10.0.{number}.1", f"s{number}")
    assert len(line) == 40
    assert line.add("10.9.0.1", "new") == "s60", "nor is it shut to who was never here"
    for number in range(4):
        assert line.add("10.8.0.1", f"r{number}", is_regular=True) is None
    assert [line.take() for _ in range(6)] == ["r0", "r1", "r2", "s61", "r3", "s62"]


def test_a_site_is_one_however_many_networks_it_has() -> None:
    """Of IPv6 whoever has a site has 65,536 networks; they take turns within it."""
    line: Line[str] = Line()
    for number in range(500):
        line.add(f"2001:db8:1:{number:x}::1", f"s{number}")
    line.add("2001:db8:1:0::2", "again")
    line.add("2001:db8:2::1", "other")
    assert [line.take() for _ in range(3)] == ["s0", "other", "s1"]
    assert take_all(line)[-1] == "again"


def test_a_site_that_has_all_it_may_have_takes_no_place_of_others(monkeypatch) -> None:
    """Each of its networks is new here, and as small as anybody: of its own one goes."""
    monkeypatch.setattr(module, "COUNT_MAX", 4)
    line: Line[str] = Line()
    line.add("10.0.0.1", "other")
    for number in range(9):
        line.add(f"2001:db8:1:{number:x}::1", f"s{number}")
    assert line.add("2001:db8:1:9::1", "s9") == "s6"
    assert take_all(line) == ["other", "s7", "s8", "s9"]


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcd")), max_size=60))
def test_everybody_is_served_once_and_nobody_twice_before_another(steps: list[str | None]) -> None:
    """Whatever comes and goes: in the order of each network, and fairly between them."""
    line: Line[tuple[str, int]] = Line()
    waiting: dict[str, list[int]] = {}
    passed: dict[str, int] = {}
    for number, network in enumerate(steps):
        if network is not None:
            assert line.add(network, (network, number)) is None
            waiting.setdefault(network, []).append(number)
            continue
        item = line.take()
        if item is None:
            assert not any(waiting.values())
            continue
        served, own = item
        assert waiting[served].pop(0) == own
        passed[served] = 0
        for other, left in waiting.items():
            if other != served and left:
                passed[other] = passed.get(other, 0) + 1
                assert passed[other] <= len(waiting), "it waited while others came twice"
    assert len(line) == sum(map(len, waiting.values()))
