"""Who guesses is slowed down by address."""

from __future__ import annotations

from itertools import count

from holdfast.security import throttle as module
from holdfast.security.regulars import Regulars
from holdfast.security.throttle import (
    FAILURES_MAX,
    NAME_FAILURES_MAX,
    SITE_FAILURES_MAX,
    Throttle,
)


def guess(number: int) -> bytes:
    return b"%d" % number


def test_each_failure_is_told_later_up_to_a_bound() -> None:
    """Twice as late as the one before; ten minutes later all is forgotten."""
    throttle = Throttle(Regulars())
    delays = [throttle.failed("10.0.0.1", guess(it), 100.0, "ann") for it in range(8)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert throttle.failed("10.0.0.2", guess(1), 100.0, "ann") == 0.1
    assert throttle.failed("10.0.0.1", guess(1), 701.0, "ann") == 0.1


def test_the_same_again_is_no_further_guess() -> None:
    """A program with an old password is told so as late as before, and shuts nobody out."""
    throttle = Throttle(Regulars())
    for number in range(1_000):
        assert throttle.failed("10.0.0.1", b"old", 100.0 + number / 10, "ann") == 0.1
    assert not throttle.is_shut_out("10.0.0.1", 200.0, "ann")
    assert throttle.failed("10.0.0.1", b"other", 200.0, "ann") == 0.2
    assert throttle.failed("10.0.0.1", b"old", 200.0, "ann") == 0.2


def test_who_goes_on_guessing_is_shut_out_for_a_minute_and_nobody_else(monkeypatch) -> None:
    """By the last failure; who comes from elsewhere logs in meanwhile (S13)."""
    throttle = Throttle(Regulars())
    for number in range(FAILURES_MAX):
        throttle.failed("10.0.0.1", guess(number), 100.0, "ann")
    assert not throttle.is_shut_out("10.0.0.1", 100.0, "ann")
    throttle.failed("10.0.0.1", b"one more", 110.0, "ann")
    assert throttle.is_shut_out("10.0.0.1", 169.0, "ann")
    assert not throttle.is_shut_out("10.0.0.2", 111.0, "ann")
    assert not throttle.is_shut_out("10.0.0.1", 170.0, "ann")
    assert throttle.failed("10.0.0.1", b"again one", 171.0, "ann") == 5.0
    assert throttle.is_shut_out("10.0.0.1", 172.0, "ann")


def test_there_is_a_limit_to_what_is_kept(monkeypatch) -> None:
    """Who failed longest ago is forgotten first."""
    monkeypatch.setattr(module, "ADDRESS_COUNT_MAX", 2)
    throttle, numbers = Throttle(Regulars()), count()
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"):
        throttle.failed(address, guess(next(numbers)), 1.0, "ann")
    assert throttle.failed("10.0.0.1", b"x", 2.0, "ann") == 0.4
    assert throttle.failed("10.0.0.2", b"x", 2.0, "ann") == 0.1


def network(number: int) -> str:
    """An address of one of the networks of a site."""
    return f"2001:db8:5:{number % 65536:x}::1"


def test_who_has_a_site_of_ipv6_guesses_as_if_it_were_one_network() -> None:
    """
    65,536 networks would be as many times twenty guesses, and each told at once.

    He is shut out as a whole, is told later and later before that, and nobody of another site is.
    """
    throttle = Throttle(Regulars())
    looked_at, now, late = 0, 0.0, 0.0
    for number in range(6_000):  # A minute.
        now += 0.01
        if not throttle.is_shut_out(network(number), now, "ann"):
            looked_at += 1
            late = max(late, throttle.failed(network(number), guess(number), now, "ann"))
    assert looked_at == SITE_FAILURES_MAX + 1
    assert late == 5.0
    assert not throttle.is_shut_out("2001:db8:6::1", now, "ann")
    assert not throttle.is_shut_out("192.0.2.7", now, "ann")


def test_one_old_password_in_all_networks_of_a_site_is_one_guess() -> None:
    """Each machine of a company may have a network of its own, and the same file on each."""
    throttle = Throttle(Regulars())
    delays = {throttle.failed(network(it), b"old", 1.0 + it / 100, "ann") for it in range(1_000)}
    assert delays == {0.1}
    assert not throttle.is_shut_out(network(2_000), 11.0, "ann")


def test_from_where_somebody_came_in_lately_is_not_shut_out_with_its_site() -> None:
    """
    Whoever guesses from new networks is in no way of those of the site that are known.

    And they have a bound of their own: who has a user makes as many networks known as he likes.
    """
    throttle = Throttle(Regulars())
    for number in range(100, 2_100):
        throttle.regulars.came_in(network(number), 1.0)
    for number in range(SITE_FAILURES_MAX + 1):
        throttle.failed(network(number % 50), guess(number), 2.0, "ann")
    assert throttle.is_shut_out(network(60), 3.0, "ann")
    assert not throttle.is_shut_out(network(100), 3.0, "ann")
    for number in range(SITE_FAILURES_MAX + 1):
        throttle.failed(network(200 + number), guess(number), 3.0, "ann")
    assert throttle.is_shut_out(network(100), 4.0, "ann")


def test_one_network_does_not_shut_out_the_site_that_it_is_of() -> None:
    """Tokens are found wrong also where it is shut out itself: its neighbours are not made to."""
    throttle = Throttle(Regulars())
    for number in range(1_000):
        throttle.failed(network(1), guess(number), 1.0 + number / 100, "ann")
    assert throttle.is_shut_out(network(1), 12.0, "ann")
    assert not throttle.is_shut_out(network(2), 12.0, "ann")


def test_a_site_that_fails_from_all_its_networks_has_no_other_forgotten(monkeypatch) -> None:
    """Else one who is shut out elsewhere would be looked at again, each time he has a site fail."""
    monkeypatch.setattr(module, "ADDRESS_COUNT_MAX", 4)
    throttle = Throttle(Regulars())
    for number in range(FAILURES_MAX + 1):
        throttle.failed("192.0.2.7", guess(number), 1.0, "ann")
    for number in range(1_000):
        throttle.failed(network(number), guess(number), 2.0, "ann")
    assert throttle.is_shut_out("192.0.2.7", 3.0, "ann")


def test_there_is_a_limit_to_the_sites_that_are_kept(monkeypatch) -> None:
    """Which failed longest ago is forgotten first."""
    monkeypatch.setattr(module, "SITE_COUNT_MAX", 2)
    throttle = Throttle(Regulars())
    for number in range(SITE_FAILURES_MAX + 1):
        for site in (1, 2):
            throttle.failed(f"2001:db8:{site}:{number}::1", guess(number), 1.0, "ann")
    throttle.failed("2001:db8:3::1", b"x", 1.0, "ann")
    shut_out = [throttle.is_shut_out(f"2001:db8:{it}:999::1", 2.0, "ann") for it in (1, 2, 3)]
    assert shut_out == [False, True, False]


def test_where_much_was_guessed_other_names_have_chances_of_their_own() -> None:
    """
    A fleet behind one address comes back after a failover while somebody guesses there.

    Each name has them, also one that nobody has; by the last guess at it the one that is guessed at
    is looked at once a minute, however many others are.
    """
    throttle, numbers = Throttle(Regulars()), count()
    looked_at = {"ann": 0, "ben": 0}
    for second in range(600):
        for number in range(20):
            for name in (f"nobody {second} {number}", "ann"):
                if not throttle.is_shut_out("10.0.0.1", float(second), name):
                    throttle.failed("10.0.0.1", guess(next(numbers)), float(second), name)
                    looked_at["ann"] += name == "ann"
        assert not throttle.is_shut_out("10.0.0.1", float(second), "ben")
    # No more than if nobody else had been guessed at: twenty, and one a minute.
    assert looked_at["ann"] <= NAME_FAILURES_MAX + 1 + FAILURES_MAX + 600 // 60
    assert throttle.is_shut_out("10.0.0.1", 599.0, "ann")
    assert not throttle.is_shut_out("10.0.0.2", 599.0, "ann")
    for number in range(NAME_FAILURES_MAX + 1):
        assert not throttle.is_shut_out("10.0.0.1", 600.0, "ben")
        for _ in range(3):
            throttle.failed("10.0.0.1", guess(-number), 600.0, "ben")
    assert throttle.is_shut_out("10.0.0.1", 659.0, "ben")
    assert not throttle.is_shut_out("10.0.0.1", 660.0, "ben")


def test_at_one_name_nobody_guesses_more_often_than_if_it_had_no_chances_of_its_own() -> None:
    """Not by letting others fail first or meanwhile, nor for hours; nor by many networks."""
    looked_at = []
    for others in (0, 1, 60):
        throttle, numbers = Throttle(Regulars()), count()
        looked_at.append(0)
        for second in range(7_200):
            if others and second % others == 0:
                for _ in range(FAILURES_MAX + 1):
                    throttle.failed("10.0.0.1", guess(next(numbers)), float(second), "nobody")
            if not throttle.is_shut_out("10.0.0.1", float(second), "ann"):
                throttle.failed("10.0.0.1", guess(next(numbers)), float(second), "ann")
                looked_at[-1] += 1
    alone, *beside_others = looked_at
    assert alone <= 12 * (FAILURES_MAX + 2)
    assert max(beside_others) <= NAME_FAILURES_MAX + 1 + 7_200 // 60 < alone
    throttle = Throttle(Regulars())
    for number in range(SITE_FAILURES_MAX + 1):
        throttle.failed(network(number), guess(number), 0.0, "nobody")
    chances = 0
    for number in range(1_000, 2_000):
        if not throttle.is_shut_out(network(number), 1.0, "ann"):
            throttle.failed(network(number), guess(number), 1.0, "ann")
            chances += 1
    assert chances == NAME_FAILURES_MAX + 1


def test_another_way_to_write_a_name_is_no_further_chance() -> None:
    """A directory takes all of these for one."""
    throttle = Throttle(Regulars())
    for number in range(FAILURES_MAX + 1):
        throttle.failed("10.0.0.1", guess(number), 1.0, "nobody")
    for number, name in enumerate(("josé", "JOSE", "Jose\u0301")):
        throttle.failed("10.0.0.1", guess(number), 1.0, name)
    assert throttle.is_shut_out("10.0.0.1", 2.0, "ＪＯＳＥ")
    assert not throttle.is_shut_out("10.0.0.1", 2.0, "josef")


def test_what_took_no_look_is_at_nobodys_name() -> None:
    """A wrong token guesses at no password, and costs nothing to show."""
    throttle = Throttle(Regulars())
    for number in range(1_000):
        throttle.failed("10.0.0.1", guess(number), 1.0, None)
    assert not throttle.is_shut_out("10.0.0.1", 2.0, "ann")


def test_old_names_go_a_few_at_a_time(monkeypatch) -> None:
    """All in one call would hold up the loop; what is old and still there counts for nothing."""
    monkeypatch.setattr(module, "FORGOTTEN_AT_ONCE_MAX", 2)
    throttle = Throttle(Regulars())
    for number in range(6):
        throttle.failed("192.0.2.7", b"m%d" % number, 1000.0, f"u{number}")
    assert len(throttle._names) == 6
    later = 1000.0 + module.LATELY_SECONDS + 1
    throttle.failed("192.0.2.7", b"x", later, "u5")
    assert len(throttle._names) == 4
    assert len(throttle._names[throttle._of_name("192.0.2.7", later, "u5")].marks) == 1
    for _ in range(3):
        throttle.failed("192.0.2.7", b"y", later, "u5")
    assert len(throttle._names) == 1


def test_where_no_more_names_are_kept_none_has_chances_of_its_own(monkeypatch) -> None:
    """Nobody has his guesses forgotten by guessing at many others; what is old goes by itself."""
    monkeypatch.setattr(module, "NAME_COUNT_MAX", 4)
    throttle = Throttle(Regulars())
    for number in range(FAILURES_MAX + 1):
        throttle.failed("10.0.0.1", guess(number), 1.0, f"nobody {number}")
    assert not throttle.is_shut_out("10.0.0.1", 1.0, "nobody 3")
    assert throttle.is_shut_out("10.0.0.1", 1.0, "nobody 4")
    assert throttle.is_shut_out("10.0.0.1", 1.0, "ann")
    assert not throttle.is_shut_out("10.0.0.2", 1.0, "ann")
    for number in range(FAILURES_MAX + 1):
        throttle.failed("10.0.0.1", guess(-number), 602.0, "ben")
    assert not throttle.is_shut_out("10.0.0.1", 603.0, "ann")
    assert throttle.is_shut_out("10.0.0.1", 603.0, "ben")
