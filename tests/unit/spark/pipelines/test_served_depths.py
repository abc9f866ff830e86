"""What a node serves beside what its log says: when it can be compared, and what is wrong then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import LinkLostError
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.pipelines import served_depths as pipeline
from holdfast.spark.pipelines.served_depths import LOOKS_MAX, ServedDepths, compared, served_depths


class PaperNode(RemoteLog):
    """A node of which each question moves the log on, for a while."""

    asked: list[str]
    applied: Callable[[int], int]

    def ask(self, method: str, path: str, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked.append(path)
        index = self.applied(len(self.asked))
        if path == "/status":
            return {"applied_index": index, "role": "follower"}
        if path.startswith("/subscriptions"):
            named = {"topic": "prices", "client_id": "ann", "name": "mine"}
            return {"subscriptions": [{"number": 5, "messages": 2, **named}]}
        return {"queues": [{"number": 4, "name": "orders", "messages": index // 10}]}


def node(applied: Callable[[int], int]) -> PaperNode:
    made = PaperNode(("a:1",))
    object.__setattr__(made, "asked", [])
    object.__setattr__(made, "applied", applied)
    return made


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.time, "sleep", lambda _seconds: None)


def test_the_answer_is_of_an_entry_at_which_the_node_stood() -> None:
    """It says the same twice, and has applied nothing in between."""
    found = served_depths("a", node(lambda asked: min(asked * 10, 70)))
    names = {4: "orders", 5: "topic://prices?subscription=ann:mine"}
    assert (70, {4: 7, 5: 2}, names) == (found.index, found.depths, found.names)
    assert (False, "") == (found.is_leader, found.not_told)


def test_a_log_that_grows_all_the_time_cannot_be_compared() -> None:
    """That is told, and so is a node that does not answer; it is no difference."""
    busy = node(lambda asked: asked)
    assert "grew at every look" in served_depths("a", busy).not_told
    assert LOOKS_MAX == busy.asked.count("/queues?local")

    def refuse(_asked: int) -> int:
        raise LinkLostError("no answer from a:1")

    assert "no answer" in served_depths("a", node(refuse)).not_told


def served(depths: dict[int, int], *, is_leader: bool = False) -> ServedDepths:
    names = {1: "orders", 2: "bills"}
    return ServedDepths(replica="a", index=70, is_leader=is_leader, depths=depths, names=names)


def test_what_is_served_is_what_lives_in_the_log() -> None:
    """A message too few was lost on the way to memory, one too many is there that is settled."""
    assert [] == compared(served({1: 5, 2: 0}), {1: 5})
    short, long, unknown = compared(served({1: 4, 2: 1}), {1: 5, 9: 2})
    assert ("served", "orders", 70) == (short.kind, short.queue, short.first_index)
    assert "it serves 4 messages of orders; 5 live in its log" == short.reason
    assert "it serves 1 messages of bills; 0 live in its log" == long.reason
    assert "it serves 0 messages of #9; 2 live in its log" == unknown.reason


def test_a_leader_has_messages_that_are_in_no_log() -> None:
    """Those that were not persistent; what is in the log it has all the same."""
    assert [] == compared(served({1: 6}, is_leader=True), {1: 5})
    assert 1 == len(compared(served({1: 4}, is_leader=True), {1: 5}))
