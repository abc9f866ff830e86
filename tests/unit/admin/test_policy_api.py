"""Policies over HTTP, asked in memory: what is read, what is refused, and what is shown."""

from __future__ import annotations

import difflib
from dataclasses import asdict

import pytest

from holdfast.admin.policy_status import PoliciesStatus, PolicyStatus
from holdfast.admin.slices import Slices
from holdfast.errors import LevelNotReachedError, PolicyError
from holdfast.model.policies import NEAR_COUNT_MAX
from tests.unit.admin.test_http_api import FAR, Answer, Wire, request

PATTERN = "queue://orders.>"


def change(node, body: object, **options: object) -> tuple[int, dict[str, object]]:
    answer = request(node, "POST", "/policies", json=body, **options)
    return answer.status_code, answer.json()


def test_what_is_set_is_read_before_it_reaches_the_broker(node) -> None:
    """By the kind of the destinations; keys that mean nothing are told in one notice."""
    said = {"queuePrefetch": "7", "useCache": True, "lazyDispatch": 1}
    status, answer = change(node, {"pattern": "/queue/orders.>", "set": said})
    assert status == 200
    assert node.changes == [("say", PATTERN, {"queuePrefetch": 7})]
    assert (answer["pattern"], answer["values"]) == (PATTERN, {"queuePrefetch": 7})
    (notice,) = answer["notices"]
    assert notice.startswith("lazyDispatch, useCache: nothing is done")


def test_what_is_taken_back_may_be_named(node) -> None:
    """Or all of it is."""
    assert change(node, {"pattern": PATTERN, "unset": ["queuePrefetch"]})[0] == 200
    assert change(node, {"pattern": PATTERN, "unset": ["x-max-length"]})[0] == 200
    assert change(node, {"pattern": PATTERN, "unset": []})[0] == 200
    taken = [["queuePrefetch"], ["maxLength"], []]
    assert node.changes == [("take back", PATTERN, names) for names in taken]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"pattern": "a.>.b", "set": {"queuePrefetch": 1}}, "'>' stands at the end"),
        ({"pattern": "a", "set": {"queuePrefetch": 0, "x": 1}}, "'queuePrefetch': 0 is out of"),
        ({"pattern": "a", "set": {"queuePrefetch": 0, "x": 1}}, "'x': unknown key"),
        ({"pattern": "a", "set": {"queuePrefetch": [1]}}, "set.queuePrefetch"),
        ({"pattern": "a", "unset": ["queuePrefech"]}, "did you mean queuePrefetch?"),
        ({"pattern": "topic://a", "unset": ["queuePrefetch"]}, "is a key of queues"),
        ({"pattern": "a"}, "one of them is expected"),
        ({"pattern": "a", "set": {}}, "one of them is expected"),
        ({"pattern": "a", "set": {"queuePrefetch": 1}, "unset": []}, "one of them is expected"),
        ({"pattern": "a", "say": {}}, "extra inputs"),
        ({"set": {}}, "pattern: field required"),
        ([], "body: input should be an object"),
        ({"pattern": "a", "set": {str(key): 1 for key in range(1_000)}}, "unknown key"),
    ],
)
def test_a_mistake_changes_nothing_and_is_told(node, body: object, why: str) -> None:
    """All mistakes of a request are, within reason, and what is allowed."""
    status, answer = change(node, body)
    assert (status, answer["error"]["code"]) == (400, "policy")
    assert why in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 2_000
    assert node.changes == []


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (LevelNotReachedError.of("policies", 3, 1), 409, "format-level"),
        (PolicyError("it was not said"), 400, "policy"),
    ],
)
def test_what_the_leader_refuses_is_told(node, failure, status: int, code: str) -> None:
    """As its own kind of error, so that the command line raises it again."""
    node.failure = failure
    found, answer = change(node, {"pattern": "a", "set": {"queuePrefetch": 1}})
    assert (found, answer["error"]["code"]) == (status, code)
    assert answer["error"]["message"] == str(failure)


def test_a_change_is_the_leaders_to_make(node) -> None:
    """It is passed on as it is, with what the leader answers."""
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"values": {}})
    body = {"pattern": "a", "set": {"queuePrefetch": 1}}
    assert change(node, body, wire=wire) == (200, {"values": {}})
    assert wire.asked[0][1:] == ("POST", "/policies", body)
    assert node.changes == []


def test_all_patterns_are_shown(node) -> None:
    """With whose word each is, and the level that the log needs."""
    answer = request(node, "GET", "/policies").json()
    assert answer["policies"] == [
        {"pattern": "queue://a.>", "source": "set", "values": {"queuePrefetch": 7}}
    ]
    assert (answer["node"], answer["revision"], answer["format_level"]) == ("a", 3, 1)


def test_one_destination_is_explained(node) -> None:
    """Every key, its value, and where that is from."""
    answer = request(node, "GET", "/policies?destination=%2Ftopic%2Fa.b").json()
    assert answer["destination"] == "topic://a.b"
    assert answer["keys"] == [
        {"key": "topic a.b", "value": 1, "source": "default", "pattern": "", "setting": "x.y"}
    ]
    refused = request(node, "GET", "/policies?destination=a.*")
    assert (refused.status_code, "no pattern" in refused.text) == (400, True)


def test_the_leader_is_asked_where_it_can_be(node) -> None:
    """It alone is sure of what holds; while there is none, or where asked to, the node itself."""
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"from": "b"})
    assert request(node, "GET", "/policies", wire=wire).json() == {"from": "b"}
    assert request(node, "GET", "/policies?local", wire=wire).json()["node"] == "a"


def test_all_that_is_said_is_told_in_slices(node, monkeypatch) -> None:
    """A thousand patterns took the loop 75 ms."""
    said = [
        PolicyStatus(pattern=f"queue://{number}", source="file", values={"queuePrefetch": 1})
        for number in range(200)
    ]
    rests: list[int] = []
    made = 0

    def each():
        nonlocal made
        for it in said:
            made += 1
            yield it

    async def rest(_slices: Slices) -> None:
        rests.append(made)

    monkeypatch.setattr(Slices, "rest", rest)
    monkeypatch.setattr(node, "policies", lambda: PoliciesStatus(revision=4, policies=each()))
    answer = request(node, "GET", "/policies").json()
    assert answer["policies"] == [asdict(it) for it in said]
    assert (answer["node"], answer["revision"]) == ("a", 4)
    assert rests == [*range(32, 200, 32), 200]


def test_of_few_keys_to_take_back_it_is_looked_what_was_meant(node, monkeypatch) -> None:
    """As of those that are set."""
    looked: list[str] = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda name, *_, **__: looked.append(name))
    change(node, {"pattern": "a", "unset": [f"k{number}" for number in range(100)]})
    assert len(looked) == NEAR_COUNT_MAX


def test_nobody_is_told_without_a_proof(node) -> None:
    """What is said of destinations is an operator's business."""
    assert request(node, "GET", "/policies", client=FAR, proof="").status_code == 403
    body = {"pattern": "a", "set": {"queuePrefetch": 1}}
    assert request(node, "POST", "/policies", client=FAR, proof="", json=body).status_code == 403
