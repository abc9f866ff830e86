"""What a request at the gate says of itself, and what is put into its answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.admin.answer_proofs import Expected
from holdfast.admin.asked_of import CONNECTION_STATE, AskedOf
from holdfast.admin.forwarding import Forwarded
from holdfast.admin.person import CLUSTER, MEMBERS, Person
from holdfast.security.roles import Duty


def asked(**more: Any) -> AskedOf:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"c=d",
        "headers": [(b"holdfast-forwarded-by", b"b")],
    }
    return AskedOf(scope | more)


def test_what_is_proven_is_what_came_over_the_wire() -> None:
    """Quoted as it was, with its query."""
    assert asked().forwarded == Forwarded("GET", "/a%20b?c=d", "b", "", "")


@pytest.mark.parametrize("server", [None, ("10.0.0.1", 8161)])
def test_where_it_was_reached_is_the_sockets_own_end(server: tuple[str, int] | None) -> None:
    """No header says that; where it is not known nothing is taken for an own place."""
    standing = asked(server=server).standing(frozenset())
    assert standing.has("10.0.0.1#8161||") == (server is not None)


@pytest.mark.parametrize(
    ("by", "is_passed_on", "duty", "holder"),
    [
        (b"b", True, Duty.VIEW, MEMBERS),
        (b"", True, Duty.VIEW, CLUSTER),
        (b"b", True, Duty.NONE, "ann"),
        (b"b", False, Duty.VIEW, "ann"),
    ],
    ids=range(4),
)
def test_what_another_node_passes_on_takes_no_place_of_whom_it_is_for(
    by: bytes, is_passed_on: bool, duty: Duty, holder: str
) -> None:
    """A command that knows the secret passes on nothing; who only says that he does is himself."""
    held: list[str] = []
    connection = SimpleNamespace(hold=lambda who: held.append(who) or True)
    request = asked(headers=[(b"holdfast-forwarded-by", by)], state={CONNECTION_STATE: connection})
    request.proven_by = CLUSTER if is_passed_on else ""
    assert request.hold(Person("ann", "", duty))
    assert held == [holder]


@pytest.mark.parametrize("expected", [None, Expected(b"key", "asked")])
def test_an_answer_carries_what_it_must_prove(expected: Expected | None) -> None:
    """Beside what it carries anyway, and by its own status."""
    request, sent = asked(), []
    request.expected = expected

    async def send(message: Any) -> None:
        sent.append(message)

    answer = {"type": "http.response.start", "status": 204, "headers": [(b"a", b"b")]}
    asyncio.run(request.answering(send)(answer))  # type: ignore[arg-type]
    more = [] if expected is None else [(b"holdfast-answer", expected.proof(204).encode())]
    assert sent[0]["headers"] == [(b"a", b"b"), *more]
