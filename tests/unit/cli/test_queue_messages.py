"""`holdfast messages`: what it asks for step by step, and what it does where nobody answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.admin.remote import Answer, RemoteNode
from holdfast.cli import queue_messages
from holdfast.errors import LinkLostError
from tests.unit.cli.conftest import A, B, C

MESSAGE = {
    "message_id": "ID:c-1-7",
    "sequence": 7,
    "stored_at": 1_700_000_000_000_000,
    "headers": {"kind": "x"},
    "body_bytes": 4,
    "body_base64": "Ym8=",
    "in_delivery": True,
    "redelivered": False,
}


def told(count: int, after: int, *, is_done: bool = False, **more: Any) -> dict[str, Any]:
    step = {"queue": "q", "action": "x", "count": count, "examined": count, "in_delivery": 0}
    step |= {"skipped": 0, "not_matching": 0, "unreadable": 0, "after": after, "through": 90}
    return step | {"is_done": is_done, "messages": []} | more


class Steps:
    """Answers each step by the next of a list; an error is raised in its place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

        def send(node: RemoteNode, method: str, path: str, body: Any = None) -> Answer:
            if path != "/messages":
                return cluster.send(node, method, path, body)
            self.asked.append((node.address, body))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, Answer) else Answer(200, answer)

        monkeypatch.setattr(RemoteNode, "send", send)
        monkeypatch.setattr(queue_messages.time, "sleep", lambda _: None)


def test_steps_go_on_where_the_last_one_ended(cluster, run, monkeypatch) -> None:
    """And no further than to the message that was the last one at the beginning."""
    steps = Steps(monkeypatch, cluster, told(1_000, 20), told(3, 90, is_done=True, in_delivery=2))
    assert run("messages", "move", "q", "r", "--selector", "x > 2") == 0
    assert run.out == "1,003 messages moved; left alone: 2 in delivery\n"
    asked = {"action": "move", "queue": "q", "target": "r", "selector": "x > 2"}
    assert steps.asked == [
        (A, asked | {"after": 0, "through": 0, "count_max": 1_000}),
        (A, asked | {"after": 20, "through": 90, "count_max": 1_000}),
    ]


def test_no_more_are_asked_for_than_were_named(cluster, run, monkeypatch) -> None:
    """Also where a step does fewer than it might."""
    steps = Steps(
        monkeypatch,
        cluster,
        *(told(1_000, 1_100), told(900, 900)),
        *(told(0, 1_000), told(300, 1_400), told(300, 1_400, is_done=True)),
        told(0, 1_500),
    )
    assert run("messages", "remove", "q", "--count", "1200", "--yes", "--json") == 0
    assert [
        (body["after"], body["count_max"], body["through"], body.get("dry_run", False))
        for _, body in steps.asked
    ] == [
        (0, 1_000, 0, True),
        (0, 1_000, 1_100, False),
        (900, 300, 90, True),
        (1_000, 300, 90, True),
        (1_000, 300, 1_400, False),
    ]
    found = json.loads(run.out)
    assert (found["action"], found["count"], found["after"]) == ("remove", 1_200, 1_400)


@dataclass
class LosingQueue:
    """A queue on which steps are done, each answer of a change being lost at first."""

    left: list[int]
    lost: set[tuple[int, int]] = field(default_factory=set)

    def send(self, body: dict[str, Any]) -> Answer:
        end = body["through"] or max(self.left, default=0)
        here = [it for it in self.left if body["after"] < it <= end]
        some = here[: body["count_max"]]
        is_done = len(some) == len(here)
        after = some[-1] if some else body["after"]
        answer = told(len(some), after, is_done=is_done, through=end)
        if not body.get("dry_run"):
            self.left = [it for it in self.left if it not in some]
            if (body["after"], end) not in self.lost:
                self.lost.add((body["after"], end))
                raise LinkLostError("gone with its answer")
        return Answer(200, answer)


@pytest.mark.parametrize("count", [1, 2, 9, 10, 99])
def test_no_more_are_done_than_were_named_though_answers_are_lost(
    cluster, run, monkeypatch, count: int
) -> None:
    """A message more that is removed is lost; of what was done unseen fewer are told."""
    queue = LosingQueue([*range(1, 11)])

    def send(node: RemoteNode, method: str, path: str, body: Any = None) -> Answer:
        if path != "/messages":
            return cluster.send(node, method, path, body)
        return queue.send(body)

    monkeypatch.setattr(RemoteNode, "send", send)
    monkeypatch.setattr(queue_messages.time, "sleep", lambda _: None)
    assert run("messages", "remove", "q", "--count", str(count), "--yes") == 0
    assert queue.left == [*range(1, 11)][count:]


def test_while_the_leader_changes_it_waits_and_asks_the_others(cluster, run, monkeypatch) -> None:
    """The same step once more: what of it was done is found done."""
    fault = Answer(409, {"error": {"code": "not-leader", "message": "b", "leader": "b"}})
    late = Answer(503, {"error": {"code": "quorum-lost", "message": "not in time"}})
    lost = LinkLostError("gone")
    end = told(5, 90, is_done=True)
    steps = Steps(monkeypatch, cluster, told(9, 9), lost, fault, late, lost, end)
    assert run("messages", "retry", "q") == 0
    assert run.out == "14 messages sent back\n"
    assert [address for address, _ in steps.asked] == [A, A, B, C, A, B]
    assert {body["after"] for _, body in steps.asked[1:]} == {9}


def test_where_nobody_has_ever_answered_it_does_not_wait(cluster, run, monkeypatch) -> None:
    """The address may be wrong."""

    def silent(_node: RemoteNode) -> None:
        raise LinkLostError("nobody there")

    monkeypatch.setattr(queue_messages, "read_status", silent)
    Steps(monkeypatch, cluster, LinkLostError("no answer from the admin port"))
    assert run("messages", "retry", "q") == 1
    assert "no answer" in run.err


def test_a_leader_that_ends_before_it_has_answered_is_waited_out(cluster, run, monkeypatch) -> None:
    """The node that was asked is there: it tells of itself, and who else may know."""
    steps = Steps(monkeypatch, cluster, LinkLostError("gone"), told(5, 90, is_done=True))
    assert run("messages", "retry", "q") == 0
    assert [address for address, _ in steps.asked] == [A, B]


def test_patience_ends(cluster, run, monkeypatch) -> None:
    """With the reason of the last attempt."""
    Steps(monkeypatch, cluster, told(9, 9), LinkLostError("gone"))
    assert run("messages", "copy", "q", "r", "--patience", "0") == 1
    assert run.err.endswith("holdfast: gone\n")


def test_a_step_that_came_no_further_is_asked_for_again(cluster, run, monkeypatch) -> None:
    """The cleaner was just there."""
    steps = Steps(monkeypatch, cluster, told(3, 3), told(0, 3), told(1, 90, is_done=True))
    assert run("messages", "copy", "q", "r") == 0
    assert len(steps.asked) == 3
    assert run.out == "4 messages copied\n"


def test_what_was_left_alone_is_told(cluster, run, monkeypatch) -> None:
    """By what it was left alone for."""
    Steps(monkeypatch, cluster, told(1, 9, is_done=True, skipped=4, unreadable=1))
    assert run("messages", "copy", "q", "r", "--quiet") == 0
    assert run.out.endswith("left alone: 4 copied before, 1 that cannot be read now\n")
    Steps(monkeypatch, cluster, told(1, 9, is_done=True, skipped=4))
    assert run("messages", "retry", "q") == 0
    assert run.out.endswith("left alone: 4 no dead letters\n")


def test_messages_are_shown(cluster, run, monkeypatch) -> None:
    """Their ids, what their consumers see, and how their bodies begin."""
    end = told(0, 90, is_done=True, unreadable=2)
    steps = Steps(monkeypatch, cluster, told(1, 7, messages=[MESSAGE]), end)
    assert run("messages", "browse", "q", "--after", "3") == 0
    head, headers, body = run.out.splitlines()
    assert head == "ID:c-1-7  2023-11-14T22:13:20Z in-delivery"
    assert (headers.strip(), body.strip()) == ("kind:x", "'bo'… (4 B)")
    assert run.err == "2 messages cannot be read now\n"
    assert [(body["after"], body["body_bytes_max"]) for _, body in steps.asked] == [
        (3, 80),
        (7, 80),
    ]


def test_no_header_looks_like_a_line_or_moves_the_cursor(cluster, run, monkeypatch) -> None:
    """A producer says what it likes; an operator's terminal obeys none of it."""
    said = {"kind": "x\nID:c-1-8  2023-11-14T22:13:20Z", "\x1b[2Jclear": "\x9b1m"}
    messages = [MESSAGE | {"headers": said}]
    Steps(monkeypatch, cluster, told(1, 90, is_done=True, messages=messages))
    assert run("messages", "browse", "q") == 0
    assert run.out.splitlines()[1:-1] == [
        "  kind:x\\nID:c-1-8  2023-11-14T22:13:20Z \\x1b[2Jclear:\\x9b1m"
    ]


def test_messages_are_told_to_programs(cluster, run, monkeypatch) -> None:
    """A line of JSON for each."""
    Steps(monkeypatch, cluster, told(2, 90, is_done=True, messages=[MESSAGE, MESSAGE]))
    assert run("messages", "browse", "q", "--json", "--body", "--count", "2") == 0
    assert [json.loads(line) for line in run.out.splitlines()] == [MESSAGE, MESSAGE]


def test_a_refusal_is_one_sentence(cluster, run, monkeypatch) -> None:
    """That of the leader."""
    fault = Answer(409, {"error": {"code": "refused", "message": "selector, column 4: what?"}})
    Steps(monkeypatch, cluster, fault)
    assert run("messages", "browse", "q", "--filter", "n =") == 1
    assert run.err == "holdfast: selector, column 4: what?\n"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([told(1, 20), told(1, 19)], "it was at message 20, and is at 19 now"),
        ([told(1, 20), told(1, 30, through=99)], "it was to end with message 90, now with 99"),
    ],
)
def test_steps_that_lead_nowhere_end_it(
    cluster, run, monkeypatch, answers: list[Any], said: str
) -> None:
    """Whoever answers so is no node, or is broken, and the command went on for ever."""
    Steps(monkeypatch, cluster, *answers)
    assert run("messages", "move", "q", "r") != 0
    assert "does not answer as a node does" in run.err
    assert f"{said}; see who listens there; so far: " in run.err


def test_a_step_that_does_not_come_on_is_waited_for_and_then_given_up(
    cluster, run, monkeypatch
) -> None:
    """The cleaner is gone after moments; who says for ever that it is there is no node."""
    now = iter(range(0, 100_000, 50))
    monkeypatch.setattr(queue_messages.time, "monotonic", lambda: float(next(now)))
    steps = Steps(monkeypatch, cluster, *[told(0, 20)] * 99)
    assert run("messages", "move", "q", "r") != 0
    assert "it has not come on for 600 s" in run.err
    assert 2 < len(steps.asked) < 15
