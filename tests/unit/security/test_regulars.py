"""From where somebody came in lately: kept a day, and so many."""

from __future__ import annotations

from holdfast.security import regulars as module
from holdfast.security.regulars import REGULAR_SECONDS, Regulars


def test_from_where_somebody_came_in_is_known_for_a_day() -> None:
    """Of IPv6 the whole network, as whoever is there has another address tomorrow."""
    regulars = Regulars()
    regulars.came_in("2001:db8::1", 10.0)
    regulars.came_in("::ffff:10.0.0.1", 20.0)
    assert regulars.is_one("2001:db8::ffff", 11.0)
    assert regulars.is_one("10.0.0.1", 21.0)
    assert not regulars.is_one("10.0.0.2", 21.0)
    assert not regulars.is_one("2001:db8::1", 10.0 + REGULAR_SECONDS)
    assert regulars.is_one("10.0.0.1", 10.0 + REGULAR_SECONDS)


def test_it_keeps_those_who_came_last(monkeypatch) -> None:
    """However many there are: a stranger with one login may come from everywhere."""
    monkeypatch.setattr(module, "NETWORK_COUNT_MAX", 2)
    regulars = Regulars()
    for number in (1, 2, 1, 3):
        regulars.came_in(f"10.0.0.{number}", 1.0)
    assert [regulars.is_one(f"10.0.0.{it}", 1.0) for it in (1, 2, 3)] == [True, False, True]


def test_a_site_with_as_many_networks_as_are_kept_has_no_other_forgotten(monkeypatch) -> None:
    """Else one user with a site would send everybody else into the line of strangers."""
    monkeypatch.setattr(module, "NETWORK_COUNT_MAX", 4)
    regulars = Regulars()
    regulars.came_in("192.0.2.7", 1.0)
    for number in range(10):
        regulars.came_in(f"2001:db8:5:{number:x}::1", 2.0)
    assert regulars.is_one("192.0.2.7", 3.0)
    known = [it for it in range(10) if regulars.is_one(f"2001:db8:5:{it:x}::1", 3.0)]
    assert known == [7, 8, 9]
