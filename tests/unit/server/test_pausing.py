"""Clients that are not read for now are looked at when what they wait for may have come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from holdfast.server.pausing import Pausing

NOW = 7.0


class Client:
    """A connection as far as it matters here; counts how often its session is looked at."""

    def __init__(self, commit_count: int = 0, *, is_held: bool = False) -> None:
        self.commit_count = commit_count
        self.is_paused = self.is_lost = self.is_ready = False
        self.is_read = True
        self.uncommitted_bytes = 5
        self.heard_at = 0.0
        self.look_count = 0
        self._session = SimpleNamespace(is_full=is_held, note_received=self._note)
        self.transport = SimpleNamespace(
            pause_reading=lambda: self._read(is_read=False),
            resume_reading=lambda: self._read(is_read=True),
        )

    @property
    def session(self) -> Any:
        self.look_count += 1
        return self._session

    def release(self) -> None:
        self._session.is_full = False

    def fill(self, *, is_full: bool) -> None:
        self._session.is_full = is_full

    def _note(self, now: float) -> None:
        self.heard_at = now

    def _read(self, *, is_read: bool) -> None:
        assert self.is_read is not is_read
        self.is_read = is_read


def paused(*clients: Client) -> Pausing:
    made = Pausing()
    for client in clients:
        made.add(client)  # type: ignore[arg-type]
        assert not client.is_read
    return made


def resume(pausing: Pausing, commit_count: int = 0, *, is_pending: bool = True) -> bool:
    return pausing.resume(NOW, commit_count, lambda: False, is_pending=is_pending)


def test_who_waits_for_a_commit_is_looked_at_once_for_each() -> None:
    """A thousand turns of a thousand clients cost no look at each of them."""
    clients = [Client() for _ in range(1000)]
    pausing = paused(*clients)
    for _ in range(1000):
        assert resume(pausing)
    assert not any(client.is_read for client in clients)
    assert max(client.look_count for client in clients) <= 2
    assert resume(pausing, 1)
    assert all(client.is_read and not client.is_paused for client in clients)
    assert {0} == {client.uncommitted_bytes for client in clients}
    assert {NOW} == {client.heard_at for client in clients}
    assert not pausing


def test_nobody_waits_for_a_commit_that_will_not_come() -> None:
    """With nothing on its way to the log all are read again."""
    client = Client()
    pausing = paused(client)
    resume(pausing)
    assert not client.is_read
    resume(pausing, is_pending=False)
    assert client.is_read


def test_what_a_client_brought_is_served_first() -> None:
    """Until then nobody looks at it; then it is judged like all others."""
    client = Client()
    client.is_ready = True
    pausing = paused(client)
    for commit_count in range(1, 100):
        resume(pausing, commit_count)
    assert not client.is_read
    assert client.look_count <= 2
    client.is_ready = False
    pausing.served(client)  # type: ignore[arg-type]
    resume(pausing, 100)
    assert client.is_read


def test_serving_somebody_who_is_read_changes_nothing() -> None:
    """Nearly all are."""
    client = Client()
    pausing = Pausing()
    pausing.served(client)  # type: ignore[arg-type]
    assert not pausing


def test_whose_words_are_held_or_have_no_room_is_looked_at_once_something_was_done() -> None:
    """Else thousands of logins that wait for their answer would make every turn longer."""
    held, full = Client(is_held=True), Client()
    full.fill(is_full=True)
    pausing = paused(held, full)
    for commit_count in range(1, 100):
        pausing.served(full)  # type: ignore[arg-type]
        resume(pausing, commit_count)
        assert not held.is_read
        assert not full.is_read
    assert held.look_count <= 1
    held.release()
    pausing.served(held)  # type: ignore[arg-type]
    resume(pausing, 100)
    assert held.is_read
    assert not full.is_read
    full.fill(is_full=False)
    pausing.served(full)  # type: ignore[arg-type]
    resume(pausing, 100)
    assert full.is_read


def test_who_came_to_be_held_after_a_commit_was_awaited_stays_unread() -> None:
    """The commit is only one of the reasons."""
    client = Client()
    pausing = paused(client)
    resume(pausing)
    client.fill(is_full=True)
    resume(pausing, 1)
    assert not client.is_read
    client.fill(is_full=False)
    pausing.served(client)  # type: ignore[arg-type]
    resume(pausing, 1)
    assert client.is_read


def test_a_turn_that_is_over_leaves_the_others_for_the_next() -> None:
    """Each turn reads again from one at least."""
    clients = [Client() for _ in range(3)]
    pausing = paused(*clients)
    counts = []
    is_done = False
    while not is_done:
        is_done = pausing.resume(NOW, 1, lambda: True, is_pending=True)
        counts.append(sum(client.is_read for client in clients))
    assert counts == [1, 2, 3, 3]


def test_who_is_gone_is_forgotten() -> None:
    """Whatever it waited for; and one that is gone is not paused either."""
    waiting, ready, gone = Client(), Client(), Client()
    ready.is_ready = True
    pausing = paused(waiting, ready)
    resume(pausing)
    gone.is_lost = True
    pausing.add(gone)  # type: ignore[arg-type]
    for client in (waiting, ready, gone):
        pausing.forget(client)  # type: ignore[arg-type]
        client.is_lost = True
    pausing.served(ready)  # type: ignore[arg-type]
    assert not pausing
    resume(pausing, 1)
    assert not waiting.is_read
    assert gone.is_read


def test_all_are_forgotten_together() -> None:
    """As when the lead ends."""
    first, second = Client(), Client(is_held=True)
    pausing = paused(first, second)
    resume(pausing)
    pausing.clear()
    assert not pausing
