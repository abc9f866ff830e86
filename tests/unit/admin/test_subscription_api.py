"""
Durable subscriptions over HTTP, asked in memory.
"""

from __future__ import annotations

from typing import Any

from tests.unit.admin.test_http_api import request


def test_they_are_told_in_pages(node) -> None:
    """
    By client-id and name; the next page stands behind the last one told of.
    """
    first = request(node, "GET", "/subscriptions?limit=1").json()
    (told,) = first["subscriptions"]
    assert (told["client_id"], told["name"], told["is_active"]) == ("", "prices:d", True)
    rest: dict[str, Any] = request(
        node, "GET", "/subscriptions", params={"after": first["next"]}
    ).json()
    (told,) = rest["subscriptions"]
    assert (told["client_id"], told["messages"], rest["next"]) == ("ann", 4, None)
    assert request(node, "GET", "/subscriptions?limit=0").status_code == 400


def test_one_is_ended_by_both_its_names(node) -> None:
    """
    By whoever may change anything; what is no request changes nothing.
    """
    wanted = {"client_id": "ann", "name": "mine"}
    answer = request(node, "POST", "/subscriptions/end", json=wanted)
    assert answer.json() == {**wanted, "messages": 4}
    assert node.changes == [("end", "ann", "mine")]
    for body in ({"name": "mine"}, {**wanted, "more": 1}, []):
        assert request(node, "POST", "/subscriptions/end", json=body).status_code == 400
    assert len(node.changes) == 1
