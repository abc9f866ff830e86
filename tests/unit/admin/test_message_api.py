"""Single messages over HTTP, asked in memory: what is read, and what is refused."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from starlette.responses import Response

from holdfast.admin.message_api import MessageInterface
from holdfast.admin.message_requests import MessageAction, MessageRequest, MessageStep
from holdfast.admin.slices import Slices
from holdfast.errors import LevelNotReachedError
from tests.unit.admin.test_http_api import FAR, Answer, Wire, request

BODY = {"action": "move", "queue": "mail", "target": "b"}


def step(node, body: object, **options: object) -> tuple[int, dict[str, object]]:
    answer = request(node, "POST", "/messages", json=body, **options)
    return answer.status_code, answer.json()


def test_a_step_is_asked_for_and_told(node) -> None:
    """With where it goes on."""
    said = BODY | {"selector": "x = 1", "after": 7, "through": 99, "count_max": 5}
    status, answer = step(node, said)
    assert status == 200
    wanted = MessageRequest(
        action=MessageAction.MOVE,
        queue="mail",
        target="b",
        selector="x = 1",
        after=7,
        through=99,
        count_max=5,
    )
    assert node.changes == [("messages", wanted)]
    assert (answer["count"], answer["after"], answer["is_done"]) == (3, 12, True)


def test_answers_are_put_together_one_after_the_other(node, monkeypatch) -> None:
    """However many ask: else each of them had a slice of the same turn of the loop."""
    written: list[str] = []

    async def rest(_slices: Slices) -> None:
        await asyncio.sleep(0)  # Every slice is over after one row.

    class Noted:
        """A row that notes when it is written."""

        def __init__(self, queue: str) -> None:
            self.queue = queue

        def keys(self) -> list[str]:
            written.append(self.queue)
            return ["of"]

        def __getitem__(self, key: str) -> str:
            return self.queue

    async def messages(wanted: MessageRequest) -> MessageStep:
        rows = [Noted(wanted.queue) for _ in range(3)]
        return MessageStep(queue=wanted.queue, action=wanted.action, messages=rows)

    monkeypatch.setattr(Slices, "rest", rest)
    api = MessageInterface(SimpleNamespace(messages=messages))

    async def ask() -> list[Response]:
        bodies = [json.dumps({"action": "browse", "queue": name}).encode() for name in "ab"]
        return await asyncio.gather(*(api.step(None, body) for body in bodies))

    answers = [json.loads(it.body) for it in asyncio.run(ask())]
    assert [it["messages"] for it in answers] == [[{"of": name}] * 3 for name in "ab"]
    assert written == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (BODY | {"action": "lose"}, "action: input should be 'browse', 'move'"),
        (BODY | {"queue": ""}, "queue: string should have at least 1"),
        (BODY | {"after": -1}, "after: input should be greater"),
        (BODY | {"count_max": 1_001}, "count_max: input should be less"),
        (BODY | {"body_bytes_max": 1 << 30}, "body_bytes_max: input should be less"),
        (BODY | {"through": 1 << 63}, "through: input should be less"),
        (BODY | {"more": 1}, "more: extra inputs"),
        ([], "body: input should be"),
    ],
)
def test_what_makes_no_sense_changes_nothing(node, body: object, why: str) -> None:
    """And the sentence names the field."""
    status, answer = step(node, body)
    assert status == 400
    assert why in answer["error"]["message"]
    assert node.changes == []


def test_a_queue_that_is_not_there_is_told(node) -> None:
    """Before anything is asked of the broker."""
    status, answer = step(node, BODY | {"queue": "nowhere"})
    assert (status, answer["error"]["code"]) == (404, "destination")


def test_what_the_log_cannot_hold_yet_is_told(node) -> None:
    """With the level that is needed."""
    node.failure = LevelNotReachedError.of("messages that are moved", 4, 3)
    status, answer = step(node, BODY)
    assert (status, answer["error"]["code"]) == (409, "format-level")


def test_another_node_passes_it_on(node) -> None:
    """Whoever asks need not know who leads."""
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"count": 4})
    assert step(node, BODY, wire=wire) == (200, {"count": 4})
    assert wire.asked == [(("127.0.0.1:8162", "0b" * 16), "POST", "/messages", BODY)]
    assert node.changes == []


def test_contents_are_shown_to_nobody_without_a_proof(node) -> None:
    """Also to who only wants to look."""
    body = {"action": "browse", "queue": "mail"}
    assert step(node, body, client=FAR, proof="")[0] == 403
    assert node.changes == []


def test_what_is_looked_at_is_told_one_by_one(node) -> None:
    """A thousand with a part of their bodies are as long as nobody may take at once."""
    node.shown = [{"sequence": 1, "headers": {"a": "b"}}, {"sequence": 2, "headers": {}}]
    _, answer = step(node, BODY | {"action": "browse"})
    assert answer["messages"] == node.shown


def test_what_is_passed_on_is_written_in_slices(node, monkeypatch) -> None:
    """A look has megabytes: written at once they hold up who only passes them on."""
    node.be(role="follower", leader="b")
    rows = [{"sequence": number, "body_base64": "QUJD"} for number in range(20)]
    rests: list[Slices] = []

    async def rest(slices: Slices) -> None:
        rests.append(slices)

    monkeypatch.setattr(Slices, "rest", rest)
    wire = Wire()
    wire.answer = Answer(200, {"messages": rows, "count": 20, "more": []})
    expected = {"messages": rows, "count": 20, "more": []}
    assert step(node, BODY, wire=wire) == (200, expected)
    assert len(rests) == 20
    wire.answer = Answer(409, {"error": {"code": "refused", "message": "no"}})
    assert step(node, BODY, wire=wire) == (409, wire.answer.body)
