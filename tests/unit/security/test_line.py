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


def test_one_network_has_its_share(monkeypatch) -> None:
    """What is more is told so at once."""
    monkeypatch.setattr(module, "NETWORK_COUNT_MAX", 2)
    line: Line[str] = Line()
    assert [line.add("a", it) for it in ("x", "y", "z")] == [None, None, "z"]
    assert len(line) == 2


def test_where_all_is_full_who_has_most_loses_the_last_of_his(monkeypatch) -> None:
    """Whoever comes next has his place, unless nobody has more than he."""
    monkeypatch.setattr(module, "COUNT_MAX", 4)
    line: Line[str] = Line()
    for name in ("a0", "a1", "a2", "b0"):
        assert line.add(name[0], name) is None
    assert line.add("c", "c0") == "a2"
    assert line.add("d", "d0") == "a1"
    assert line.add("e", "e0") == "e0"
    assert line.add("a", "a3") == "a3"
    assert take_all(line) == ["a0", "b0", "c0", "d0"]


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
