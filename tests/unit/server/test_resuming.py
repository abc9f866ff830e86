"""Tests of server/resuming.py: clients that take deliveries again, one after the other."""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.server.resuming import Resuming


class Desk:
    """A broker and a containment that write down what they are told."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.resumed: list[str] = []
        self.ended: list[str] = []
        self.resuming = Resuming(self, SimpleNamespace(broke=lambda whose, _: self.end(whose)))  # type: ignore[arg-type]

    def resume(self, session: str) -> None:
        self.resumed.append(session)
        if session in self.broken:
            raise KeyError(session)

    def end(self, whose: str) -> None:
        self.ended.append(whose)


def test_they_are_resumed_in_order_as_far_as_the_time_goes() -> None:
    """At least one in each step, and who has gone meanwhile is passed over."""
    desk = Desk()
    clients = [SimpleNamespace(session=name) for name in "abcd"]
    for client in clients:
        desk.resuming.later(client)
    served = [clients[0], *clients[2:]]

    assert not desk.resuming.step(served, lambda: True)
    assert ["a"] == desk.resumed
    assert not desk.resuming.step(served, lambda: True)
    assert ["a", "c"] == desk.resumed
    assert desk.resuming.drained
    assert desk.resuming.step(served, lambda: True)
    assert (["a", "c", "d"], False) == (desk.resumed, bool(desk.resuming.drained))


def test_one_that_breaks_is_ended_and_the_others_go_on() -> None:
    """A mistake over one client costs that client."""
    desk = Desk("a")
    clients = [SimpleNamespace(session=name) for name in "ab"]
    for client in clients:
        desk.resuming.later(client)

    assert desk.resuming.step(clients, lambda: False)
    assert (["a", "b"], ["a"]) == (desk.resumed, desk.ended)


def test_with_the_leadership_they_are_forgotten() -> None:
    """Its clients are closed."""
    desk = Desk()
    client = SimpleNamespace(session="a")
    desk.resuming.later(client)
    desk.resuming.stop()

    assert desk.resuming.step([client], lambda: False)
    assert [] == desk.resumed
