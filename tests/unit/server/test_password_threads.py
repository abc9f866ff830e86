"""Threads that look at passwords beside the loop."""

from __future__ import annotations

import queue
import threading

import pytest

from holdfast.errors import AccessError, AuthenticationError
from holdfast.security.authority import Vouched
from holdfast.security.checking import Waiting
from holdfast.security.passwords import NOBODYS, hash_password, is_password
from holdfast.server import password_threads
from holdfast.server.password_threads import PasswordThreads

PEPPER = b"p" * 32


class Kept:
    """A key that is there, or is not."""

    key: bytes | None = PEPPER

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


def waiting(secret: str, kept: str) -> Waiting:
    return Waiting(b"", "ann", secret, kept, None)


def test_what_was_found_is_told_by_whoever_runs_what_is_posted(threads, posted) -> None:
    """On the loop, that is: nothing is told on these threads."""
    kept = hash_password("right", pepper=PEPPER, salt=b"s" * 16)
    told: list[tuple[str, bool]] = []
    for secret, against in (("right", kept), ("wrong", kept), ("right", NOBODYS)):
        it = waiting(secret, against)
        threads.look(it, lambda it, is_right: told.append((it.secret, is_right)))
        assert told == []
        posted.get(timeout=20)()
        assert told == [(secret, secret == "right" and against == kept)]
        told.clear()


def test_what_is_hashed_is_right_afterwards_and_each_time_another(threads) -> None:
    """Two users with one password have nothing in common that could be seen."""
    one, other = (threads.hash("right").result(timeout=20) for _ in range(2))
    assert one != other
    assert is_password(one, "right", pepper=PEPPER)
    assert not is_password(one, "right", pepper=bytes(32))
    with pytest.raises(AccessError, match="1 to 1,024 bytes"):
        threads.hash("").result(timeout=20)


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
    threads.look(waiting("right", kept), lambda _, is_right: told.append(is_right))
    posted.get(timeout=20)()
    assert told == [False]
    assert looked_at == [NOBODYS]
    with pytest.raises(AccessError, match="there can be none"):
        threads.hash("right").result(timeout=20)


def test_a_mistake_of_ours_lets_nobody_in(threads, posted, monkeypatch) -> None:
    """And somebody is told: else a client would wait for ever."""

    def broken(*_arguments, **_more):
        raise RuntimeError

    monkeypatch.setattr(password_threads, "is_password", broken)
    told: list[bool] = []
    threads.look(waiting("x", "y"), lambda _, is_right: told.append(is_right))
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
        threads.look(waiting("x", "y"), lambda *_: None)
    assert begun.acquire(timeout=20)
    assert begun.acquire(timeout=20)
    assert not begun.acquire(blocking=False)
    threads.close()
    go_on.set()
    for _ in range(2):
        posted.get(timeout=20)
    threads._executor.shutdown(wait=True)
    assert posted.empty()


class Asked:
    """Somebody who vouches, or cannot be asked, or is broken."""

    label = "ldap.people"

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
        threads.look(asked, lambda _waiting, outcome: told.append(outcome))
        posted.get(timeout=10)()
    assert told == [said, False, away, False]
    hanging = threading.Event()
    stuck = Asked(None)
    stuck.look = lambda *_: hanging.wait(10)
    for _ in range(password_threads.THREAD_COUNT):
        threads.look(Waiting(b"", "ann", "pw", NOBODYS, None, stuck), lambda *_: None)
    kept = hash_password("right", pepper=PEPPER, salt=b"s" * 16)
    threads.look(waiting("right", kept), lambda _waiting, outcome: told.append(outcome))
    posted.get(timeout=10)()
    hanging.set()
    assert told[-1] is True
