"""Where an asker has opened a connection, and whether that is a place of the node."""

from __future__ import annotations

import pytest

from holdfast.admin import reached as module
from holdfast.admin.reached import NOWHERE, TEXT_LENGTH_MAX, Standing, reached


class PaperConnection:
    """Leads to an address, once it is opened."""

    def __init__(self, *there: object) -> None:
        self.there = there
        self.sock: PaperConnection | None = None

    def connect(self) -> None:
        self.sock = self

    def getpeername(self) -> tuple[object, ...]:
        return self.there


@pytest.mark.parametrize(
    ("there", "place", "end", "named", "is_own"),
    [
        (("127.0.0.1", 8161), "127.0.0.1:8161", ("127.0.0.1", 8161), (), True),
        (("127.0.0.1", 8161), "localhost:8161", ("::ffff:127.0.0.1", 8161), (), True),
        (("10.0.0.1", 8161), "a.example:8161", ("10.0.0.1", 8161), (), True),
        (("fe80::1%eth0", 8161, 0, 2), "[fe80::1%eth0]:8161", ("fe80::1", 8161), (), True),
        (("::1", 8161, 0, 0), "[::1]:8161", ("0:0::1", 8161), (), True),
        (("127.0.0.1", 8161), "127.0.0.1:8161", ("127.0.0.1", 8162), (), False),
        (("127.0.0.1", 8161), "127.0.0.1:8161", ("127.0.0.2", 8161), (), False),
        (("127.0.0.1", 8161), "127.0.0.1:8161", ("10.0.0.2", 8161), (), False),
        (("10.0.0.1", 8161), "a.example:8161", ("10.0.0.2", 8161), (), False),
        (("10.0.0.1", 8161), "a.example:8161", ("10.0.0.2", 8161), ("b.example",), False),
        (("10.0.0.1", 8161), "A.example:8161", ("10.0.0.2", 8161), ("a.example",), True),
        (("10.0.0.1", 443), "a.example:443", ("10.0.0.2", 8161), ("a.example",), False),
        (("10.0.0.1", 443), "a.example:443", ("10.0.0.2", 8161), ("a.example:443",), True),
        (("127.0.0.1", 9000), "127.0.0.1:9000", ("172.17.0.2", 8161), ("127.0.0.1:9000",), True),
        (("fd00::9", 8161, 0, 0), "[fd00::9]:8161", ("fd00::1", 8161), ("fd00::9",), True),
        (("fd00::9", 80, 0, 0), "[fd00::9]:80", ("fd00::1", 8161), ("[fd00::9]:80",), True),
        (("10.0.0.1", 8161), "ö:8161", ("10.0.0.1", 8161), (), True),
        (("10.0.0.1", 8161), "ö:8161", ("10.0.0.2", 8161), ("", "ö"), False),
    ],
)
def test_a_node_takes_what_was_sent_to_an_address_of_its_own(
    there: tuple[object, ...],
    place: str,
    end: tuple[str, int],
    named: tuple[str, ...],
    is_own: bool,
) -> None:
    """Or to what its operator has named; ports count, as several nodes may be on one machine."""
    text = reached(PaperConnection(*there), place)  # type: ignore[arg-type]
    assert Standing(end, named).has(text) == is_own
    assert not NOWHERE.has(text)
    assert len(text) <= TEXT_LENGTH_MAX
    assert "," not in text
    assert str(end[1]) in Standing(end, named).refusal(text)


def test_loopback_is_another_machine_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has a user on two machines passes on by the loopback of the second."""
    monkeypatch.setattr(module, "network_place", lambda: "this boot 1")
    loopback = reached(PaperConnection("127.0.0.1", 8161), "127.0.0.1:8161")  # type: ignore[arg-type]
    other = reached(PaperConnection("10.0.0.1", 8161), "a:8161")  # type: ignore[arg-type]
    for place, is_own in (("this boot 1", True), ("this boot 2", False), ("", False)):
        monkeypatch.setattr(module, "network_place", lambda place=place: place)
        assert Standing(("127.0.0.1", 8161)).has(loopback) == is_own
        assert Standing(("10.0.0.1", 8161)).has(other)
    assert "boot" not in loopback


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1:8161", "127.0.0.1#8161", "1.1.1.1#1|a,b|"])
def test_what_says_no_place_is_taken_nowhere(text: str) -> None:
    """It is of a command of another version, or of none."""
    standing = Standing(("127.0.0.1", 8161), ("127.0.0.1",))
    assert not standing.has(text)
    assert "another version" in standing.refusal(text)
