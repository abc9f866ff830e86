"""Threads that look at passwords beside the loop."""

from __future__ import annotations

import os
import queue
import threading

import pytest

from holdfast.errors import AccessError, AuthenticationError
from holdfast.security import line
from holdfast.security.authority import Vouched
from holdfast.security.checking import BUSY, Waiting
from holdfast.security.passwords import NOBODYS, hash_password, is_password
from holdfast.security.scram_keys import keys_of, read_kept, salted, unmasked
from holdfast.server import password_threads
from holdfast.server.password_threads import PasswordThreads

PEPPER = b"p" * 32


class Kept:
    """A key that is there, or is not."""

    key: bytes | None = PEPPER
    earlier: tuple[bytes, ...] = ()

    @property
    def keys(self) -> tuple[bytes, ...]:
        return () if self.key is None else (self.key, *self.earlier)

    def need(self) -> bytes:
        if self.key is None:
            raise AccessError("there can be none")
        return self.key


@pytest.fixture
def posted() -> queue.Queue:
    return queue.Queue()


@pytest.fixture
def threads(posted):
    threads = PasswordThreads(Kept(), posted.put)
    yield threads
    threads.close()


def waiting(secret: str, kept: str, address: str = "") -> Waiting:
    return Waiting(b"", "ann", secret, kept, None, address=address)


def never(_waiting: Waiting) -> str:
    """No reason to pass anybody over."""
    return ""


def test_what_was_found_is_told_by_whoever_runs_what_is_posted(threads, posted) -> None:
    """On the loop, that is: nothing is told on these threads."""
    kept = hash_password("right", pepper=PEPPER, salt=b"s" * 16)
    told: list[tuple[str, bool]] = []
    for secret, against in (("right", kept), ("wrong", kept), ("right", NOBODYS)):
        it = waiting(secret, against)
        threads.look(it, never, lambda it, is_right: told.append((it.secret, is_right)))
        assert told == []
        posted.get(timeout=20)()
        assert told == [(secret, secret == "right" and against == kept)]
        told.clear()


def test_keys_for_scram_are_made_of_the_same_password_where_they_are_wanted(posted) -> None:
    """Beside the loop as well, and each time under another pad."""
    threads = PasswordThreads(Kept(), posted.put, keeps_scram=True)
    try:
        one, other = (threads.keep("ann", "right").result(timeout=20) for _ in range(2))
        assert is_password(one.password, "right", pepper=PEPPER)
        found = read_kept({"password": one.password, "scram": one.scram})
        assert found is not None
        expected = keys_of(salted("right", found.salt, found.iterations))
        assert unmasked(found.masked, "ann", PEPPER) == expected
        assert one.scram["keys"] != other.scram["keys"]
        with pytest.raises(AccessError, match="cannot show"):
            threads.keep("ann", "\u0007").result(timeout=20)
        with pytest.raises(AccessError, match="1 to 1,024 bytes"):
            threads.keep("ann", "x" * 1025).result(timeout=20)
    finally:
        threads.close()


def test_what_is_hashed_is_right_afterwards_and_each_time_another(threads) -> None:
    """Two users with one password have nothing in common that could be seen."""
    one, other = (threads.keep("ann", "right").result(timeout=20).password for _ in range(2))
    assert one != other
    assert is_password(one, "right", pepper=PEPPER)
    assert not is_password(one, "right", pepper=bytes(32))
    with pytest.raises(AccessError, match="1 to 1,024 bytes"):
        threads.keep("ann", "").result(timeout=20)


def test_without_a_key_no_password_is_right_and_it_is_looked_at_all_the_same(
    threads, posted, monkeypatch
) -> None:
    """The file of the key is lost: nobody finds out by the time that it takes."""
    kept = hash_password("right", pepper=PEPPER, salt=b"s" * 16)
    looked_at: list[str] = []

    def look(against: str, password: str, *, pepper: bytes) -> bool:
        looked_at.append(against)
        return is_password(against, password, pepper=pepper)

    monkeypatch.setattr(password_threads, "is_password", look)
    monkeypatch.setattr(Kept, "key", None)
    told: list[bool] = []
    threads.look(waiting("right", kept), never, lambda _, is_right: told.append(is_right))
    posted.get(timeout=20)()
    assert told == [False]
    assert looked_at == [NOBODYS]
    with pytest.raises(AccessError, match="there can be none"):
        threads.keep("ann", "right").result(timeout=20)


def test_each_key_that_is_here_is_tried_and_as_many_for_whom_there_is_none(
    threads, posted, monkeypatch
) -> None:
    """A node that was alone has a secret now: what was set before is right by the key of before."""
    monkeypatch.setattr(Kept, "earlier", (b"e" * 32,))
    before = hash_password("right", pepper=b"e" * 32, salt=b"s" * 16)
    tried: list[tuple[str, bytes]] = []

    def look(against: str, password: str, *, pepper: bytes) -> bool:
        tried.append((against, pepper))
        return is_password(against, password, pepper=pepper)

    monkeypatch.setattr(password_threads, "is_password", look)
    told: list[bool] = []
    for secret, kept in (("right", before), ("wrong", before), ("right", NOBODYS)):
        threads.look(waiting(secret, kept), never, lambda _, is_right: told.append(is_right))
        posted.get(timeout=20)()
        assert tried == [(kept, PEPPER), (kept, b"e" * 32)]
        tried.clear()
    assert told == [True, False, False]
    assert is_password(threads.keep("ann", "new").result(timeout=20).password, "new", pepper=PEPPER)


def test_a_mistake_of_ours_lets_nobody_in(threads, posted, monkeypatch) -> None:
    """And somebody is told: else a client would wait for ever."""

    def broken(*_arguments, **_more):
        raise RuntimeError

    monkeypatch.setattr(password_threads, "is_password", broken)
    told: list[bool] = []
    threads.look(waiting("x", "y"), never, lambda _, is_right: told.append(is_right))
    posted.get(timeout=20)()
    assert told == [False]


def test_two_are_looked_at_at_once_and_closing_waits_for_none(threads, posted, monkeypatch) -> None:
    """What was not begun is not told of: nobody is there any more."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_arguments, **_more):
        begun.release()
        go_on.wait(20)
        return True

    monkeypatch.setattr(password_threads, "is_password", slow)
    for _ in range(4):
        threads.look(waiting("x", "y"), never, lambda *_: None)
    assert begun.acquire(timeout=20)
    assert begun.acquire(timeout=20)
    assert not begun.acquire(blocking=False)
    threads.close()
    go_on.set()
    for _ in range(2):
        posted.get(timeout=20)
    threads._kinds[""].executor.shutdown(wait=True)
    assert posted.empty()


class Asked:
    """Somebody who vouches, or cannot be asked, or is broken."""

    label = "ldap.people"
    is_guessable = True

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def look(self, name: str, secret: str) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_who_vouches_is_asked_on_threads_of_his_own(threads, posted) -> None:
    """One that hangs holds up nobody whose password is looked at here."""
    said, away = Vouched("ann", frozenset(), 1.0), AuthenticationError("away")
    told: list[object] = []
    for answer in (said, None, away, RuntimeError("a mistake")):
        asked = Waiting(b"", "ann", "pw", NOBODYS, None, Asked(answer))
        threads.look(asked, never, lambda _waiting, outcome: told.append(outcome))
        posted.get(timeout=10)()
    assert told == [said, False, away, False]
    hanging = threading.Event()
    stuck = Asked(None)
    stuck.look = lambda *_: hanging.wait(10)
    for _ in range(password_threads.THREAD_COUNT):
        threads.look(Waiting(b"", "ann", "pw", NOBODYS, None, stuck), never, lambda *_: None)
    kept = hash_password("right", pepper=PEPPER, salt=b"s" * 16)
    threads.look(waiting("right", kept), never, lambda _waiting, outcome: told.append(outcome))
    posted.get(timeout=10)()
    hanging.set()
    assert told[-1] is True


def test_networks_take_turns_and_who_is_passed_over_is_told(threads, posted, monkeypatch) -> None:
    """A crowd of one network stands behind itself; what nobody wants to know is not looked at."""
    looked_at: list[str] = []
    go_on = threading.Semaphore(0)

    def slow(_kept: str, secret: str, **_more: object) -> bool:
        go_on.acquire(timeout=20)
        looked_at.append(secret)
        return True

    monkeypatch.setattr(password_threads, "is_password", slow)
    told: list[tuple[str, str]] = []

    def done(it: Waiting, outcome: object) -> None:
        told.append((it.secret, str(outcome)))

    for number in range(6):
        threads.look(waiting(f"a{number}", "k", "10.0.0.1"), never, done)
    threads.look(waiting("b0", "k", "10.0.0.2"), never, done)
    threads.look(waiting("c0", "k", "10.0.0.3"), lambda _: "gone", done)
    for _ in range(9):
        go_on.release()
    while len(told) < 8:
        posted.get(timeout=20)()
    assert "b0" in looked_at[2:5]
    assert ("c0", "gone") in told
    assert "c0" not in looked_at


def test_a_line_that_is_too_long_says_so(threads, posted, monkeypatch) -> None:
    """At once, and to who came last."""
    go_on = threading.Event()
    monkeypatch.setattr(password_threads, "is_password", lambda *_, **__: go_on.wait(20))
    monkeypatch.setattr(line, "COUNT_MAX", 1)
    told: list[tuple[str, str]] = []
    for name in ("a", "b", "c", "d"):
        it = waiting(name, "k", "10.0.0.1")
        threads.look(it, never, lambda it, outcome: told.append((it.secret, str(outcome))))
    posted.get(timeout=20)()
    go_on.set()
    assert told == [("d", BUSY)]


def test_looking_leaves_the_processor_to_the_loop(threads, posted, monkeypatch) -> None:
    """Two threads of argon2 would have the same share of two processors as an election has."""
    nice: list[int] = []

    def look(*_arguments: object, **_more: object) -> bool:
        nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return True

    monkeypatch.setattr(password_threads, "is_password", look)
    threads.look(waiting("a", "k"), never, lambda *_: None)
    posted.get(timeout=20)()
    assert nice[0] > os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) or nice[0] >= 10
