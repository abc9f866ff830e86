"""
What may stand in the body of a request that changes something.
"""

from __future__ import annotations

import json

import pytest

from holdfast.admin import bodies
from holdfast.admin.bodies import FAULTS_MAX, BodyError, read_body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (bodies.NoArguments, {}),
        (bodies.Transfer, {"to": "b"}),
        (bodies.Add, {"name": "d", "address": "h:1", "kind": "learner", "site": "s"}),
        (bodies.Remove, {"name": "d"}),
        (bodies.Promote, {"name": "d", "force": True}),
        (bodies.Keep, {"index": 1, "bytes_max": 5, "expiry_seconds": 3600, "or_first": True}),
        (bodies.ChangePolicy, {"pattern": "queue:a", "set": {"prefetch": 5}}),
    ],
)
def test_what_may_stand_there_is_read(kind: type[bodies.BodyT], body: dict[str, object]) -> None:
    """
    Each field as it was written; whatever is not known is refused.
    """
    found = read_body(json.dumps(body).encode(), kind)
    assert {name: getattr(found, name) for name in body} == body
    with pytest.raises(BodyError, match="nobody: extra inputs are not permitted"):
        read_body(json.dumps({**body, "nobody": 1}).encode(), kind)


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        (bodies.Transfer, "{", "body: invalid json"),
        (bodies.Transfer, "[]", "body: input should be an object"),
        (bodies.Remove, "{}", "name: field required"),
        (bodies.Add, '{"name": "-", "address": "h:1"}', "name: string should match pattern"),
        (bodies.Add, '{"name": "d", "address": ":1"}', "address: .*has no host"),
        (bodies.Keep, '{"index": 0}', "index: input should be greater than or equal to 1"),
    ],
)
def test_what_may_not_is_named(kind: type[bodies.BodyT], body: str, sentence: str) -> None:
    """
    The field, and what is wrong with it.
    """
    with pytest.raises(BodyError, match=sentence):
        read_body(body.encode(), kind)


def test_of_many_mistakes_some_are_told() -> None:
    """
    An answer is not as long as whoever asks likes.
    """
    body = json.dumps({f"x{number}": 1 for number in range(100)}).encode()
    with pytest.raises(BodyError) as caught:
        read_body(body, bodies.NoArguments)
    assert str(caught.value).count("; ") == FAULTS_MAX - 1


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        (bodies.ChangePolicy, {"pattern": "a", "unset": ["k"] * 9_000}, "unset: list should have"),
        (bodies.ChangePolicy, {"pattern": "a", "unset": [1] * 9_000}, "unset: list should have"),
        (bodies.Promote, {"name": "a", "companions": [1] * 9_000}, "companions: list should have"),
        (bodies.NoArguments, {f"k{it}": 1 for it in range(5_000)}, "body: 5,000 things in it are"),
        (
            bodies.ChangePolicy,
            {"pattern": "a", "set": {f"k{it}": [] for it in range(5_000)}},
            "body: 15,000 things in it are",
        ),
    ],
)
def test_thousands_of_mistakes_are_not_written_one_by_one(
    kind: type[bodies.BodyT], body: dict[str, object], sentence: str
) -> None:
    """
    The loop waits for that, and with it all clients.
    """
    with pytest.raises(BodyError, match=sentence):
        read_body(json.dumps(body).encode(), kind)
