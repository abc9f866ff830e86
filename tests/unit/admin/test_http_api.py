"""
The HTTP interface, asked in memory: no port is opened.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from holdfast.admin.access import Access
from holdfast.admin.forwarding import BODY_BYTES_MAX, FORWARDED_HEADER
from holdfast.admin.http_api import build_application
from holdfast.admin.operations import Operations
from holdfast.admin.process_mark import mark_of, place_mark_of
from holdfast.admin.remote import Answer, admin_token
from holdfast.admin.status import HoldStatus
from holdfast.environment.network_place import network_place
from holdfast.errors import (
    LinkLostError,
    MembershipError,
    QuorumLostError,
    StoreFullError,
    TransactionError,
)

SECRET = b"0123456789abcdef"
LOCAL = "11" * 32
LIFE = "0a" * 16
FAR = "10.1.1.1"


class Wire:
    """Where a node's questions to another node go."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.answer: Answer | LinkLostError = Answer(200, {"purged": 5})

    async def ask(self, *question: object) -> Answer:
        self.asked.append(question)
        if isinstance(self.answer, LinkLostError):
            raise self.answer
        return self.answer


def request(
    node,
    method: str,
    path: str,
    *,
    wire: Wire | None = None,
    client: str = "127.0.0.1",
    proof: str = LOCAL,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> httpx.Response:
    application = build_application(
        Operations(node),
        access=Access(secret=SECRET, local_token=LOCAL, life=LIFE),
        ask=wire.ask if wire is not None else None,
    )
    options["headers"] = {"authorization": f"Bearer {proof}", **(headers or {})}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(application, client=(client, 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
            return await session.request(method, path, **options)

    return asyncio.run(send())


def test_health_answers_while_the_loop_turns(node) -> None:
    """
    A candidate is alive, if not ready.
    """
    node.be(role="candidate", leader=None)
    health = request(node, "GET", "/health").json()
    assert (health["alive"], health["process"]) == (True, mark_of(LIFE))
    assert health["place"] == place_mark_of(LIFE, network_place())
    answer = request(node, "GET", "/ready")
    assert answer.status_code == 503
    assert answer.json()["reason"].startswith("no leader: ")


def test_ready_tells_the_role(node) -> None:
    """
    Status code for balancers, role for people.
    """
    answer = request(node, "GET", "/ready")
    assert (answer.status_code, answer.json()["role"]) == (200, "leader")


def test_status_has_the_fields_that_scripts_rely_on(node) -> None:
    """
    The list stands in the issue; a missing one breaks somebody's script.
    """
    body = request(node, "GET", "/status").json()
    wanted = {"name", "role", "leader", "term", "commit_index", "applied_index", "members", "store"}
    assert wanted <= set(body)
    assert {"bytes_on_disk", "segments", "live_messages"} <= set(body["store"])


def test_segments_carry_digests_and_connections_their_peers(node) -> None:
    """
    Replicas are compared by the digests of their sealed segments.
    """
    segments = request(node, "GET", "/segments").json()["segments"]
    assert [segment["digest"] for segment in segments] == ["ab", ""]
    page = request(node, "GET", "/segments?seconds=5").json()
    assert ([1], 1) == ([it["base_index"] for it in page["segments"]], page["next"])
    page = request(node, "GET", "/segments?seconds=5&after=1").json()
    assert [50] == [it["base_index"] for it in page["segments"]]
    assert "next" not in page
    assert request(node, "GET", "/segments?seconds=x").status_code == 400
    connections = request(node, "GET", "/connections").json()["connections"]
    assert connections[0]["peer"] == "127.0.0.1:50000"


def test_metrics_are_text_for_prometheus(node) -> None:
    """
    The content type names the format's version.
    """
    answer = request(node, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"holdfast_term 7.0" in answer.content


@pytest.mark.parametrize(
    ("method", "path", "body", "change", "answer"),
    [
        ("POST", "/cluster/transfer", {"to": "b"}, ("transfer", "b"), {"leader": "b"}),
        ("POST", "/cluster/transfer", None, ("transfer", None), {"leader": "b"}),
        (
            "POST",
            "/cluster/add",
            {"name": "d", "address": "h:1", "kind": "witness", "site": "x"},
            ("add", "d", "h:1", "witness", "x"),
            {"added": "d"},
        ),
        ("POST", "/cluster/remove", {"name": "b"}, ("remove", "b"), {"removed": "b"}),
        ("POST", "/cluster/promote", {"name": "c"}, ("promote", "c"), {"promoted": "c"}),
        ("POST", "/queues/mail/purge", None, ("purge", "mail"), {"purged": 9}),
        ("POST", "/queues/orders%2Fnew/purge", {}, ("purge", "orders/new"), {"purged": 9}),
        (
            "DELETE",
            "/queues/orders%2Fnew",
            None,
            ("delete", "orders/new"),
            {"deleted": "orders/new", "messages": 9},
        ),
    ],
)
def test_a_change_reaches_the_node(
    node, method: str, path: str, body: dict[str, Any] | None, change: tuple, answer: dict
) -> None:
    """
    Path and body name the change; the answer says what was done.
    """
    got = request(node, method, path, json=body)
    assert (got.status_code, got.json(), node.changes) == (200, answer, [change])


def test_a_forced_promotion_answers_with_its_report(node) -> None:
    """
    The operator's word is a field of the request, never assumed.
    """
    node.be(role="candidate", leader=None)
    body = {"name": "a", "force": True}
    refused = request(node, "POST", "/cluster/promote", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "membership")
    answer = request(node, "POST", "/cluster/promote", json={**body, "peers_are_dead": True})
    assert answer.json()["report"]["shut_out"] == ["b", "c"]


def test_a_follower_passes_a_change_on_to_the_leader(node) -> None:
    """
    The request goes on as it came, quoted name and body included, and so does the answer.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    answer = request(node, "POST", "/queues/orders%2Fnew/purge", wire=wire, json={})
    assert wire.asked == [(("127.0.0.1:8162", "0b" * 16), "POST", "/queues/orders%2Fnew/purge", {})]
    assert (answer.status_code, answer.json()) == (200, {"purged": 5})


def test_a_change_that_was_passed_on_is_not_passed_on_again(node) -> None:
    """
    Two nodes that take each other for the leader must not send a request round for ever.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    headers = {FORWARDED_HEADER: "c"}
    answer = request(node, "POST", "/queues/mail/purge", wire=wire, headers=headers)
    assert (answer.status_code, wire.asked) == (409, [])
    assert answer.json()["error"] == {
        "code": "not-leader",
        "leader": "b",
        "message": "this node is not the leader; the leader is b",
    }


def test_a_leader_that_cannot_be_reached_is_named(node) -> None:
    """
    The operator learns who leads and why it could not be asked.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = LinkLostError("no answer")
    answer = request(node, "POST", "/queues/mail/purge", wire=wire)
    assert answer.status_code == 502
    assert answer.json()["error"]["message"].endswith("the leader is b; no answer")


def test_without_a_known_leader_a_change_is_refused(node) -> None:
    """
    Nothing is tried where nobody can answer.
    """
    node.be(role="candidate", leader=None)
    assert request(node, "POST", "/queues/mail/purge").json()["error"]["leader"] is None


def test_a_follower_shows_the_leaders_queues(node) -> None:
    """
    Only the leader knows consumers, so its view is the one to show.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"node": "b", "role": "leader", "queues": []})
    assert request(node, "GET", "/queues", wire=wire).json()["node"] == "b"
    assert request(node, "GET", "/queues?local=1", wire=wire).json()["node"] == "a"
    assert len(wire.asked) == 1


@pytest.mark.parametrize("answer", [LinkLostError("gone"), Answer(503, {"error": {}})])
def test_a_follower_shows_its_own_queues_if_the_leader_is_gone(node, answer) -> None:
    """
    Between leaders the messages are still counted.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = answer
    body = request(node, "GET", "/queues", wire=wire).json()
    assert (body["node"], body["role"], len(body["queues"])) == ("a", "follower", 2)
    assert body["own_view"].startswith("the leader ")
    for path, named in [
        ("/subscriptions", "subscriptions"),
        ("/policies", "policies"),
        ("/policies?destination=a", "keys"),
        ("/users", "users"),
        ("/grants", "grants"),
        ("/access?user=ann&destination=a", "rights"),
    ]:
        told = request(node, "GET", path, wire=wire).json()
        assert named in told
        assert told["own_view"] == body["own_view"]
        mark = "&" if "?" in path else "?"
        assert "own_view" not in request(node, "GET", f"{path}{mark}local=1", wire=wire).json()
    node.be(role="candidate", leader=None)
    told = request(node, "GET", "/queues", wire=wire).json()
    assert told["own_view"] == "no leader is known here, or none whose admin port is"
    node.be(role="leader", leader="a")
    assert "own_view" not in request(node, "GET", "/queues", wire=wire).json()


def test_queues_come_in_pages(node) -> None:
    """
    Each answer says behind which name the next one begins; the last one does not.
    """
    first = request(node, "GET", "/queues?limit=1").json()
    assert ([it["name"] for it in first["queues"]], first["next"]) == (["mail"], "mail")
    last = request(node, "GET", f"/queues?limit=1&after={first['next']}").json()
    assert ([it["name"] for it in last["queues"]], last["next"]) == (["orders/new"], None)
    assert last["queues"][0]["consumers"] == 1
    beyond = request(node, "GET", "/queues?after=zz").json()
    assert (beyond["queues"], beyond["next"]) == ([], None)


@pytest.mark.parametrize("limit", ["0", "1001", "x", "-1", "", "9" * 30, "%D9%A3", "%2B5", "1_0"])
def test_a_page_of_no_size_or_too_large_a_one_is_refused(node, limit: str) -> None:
    """
    What is allowed stands in the answer.
    """
    answer = request(node, "GET", f"/queues?limit={limit}")
    assert answer.status_code == 400
    assert "from 1 to 1000" in answer.json()["error"]["message"]


def test_the_page_that_is_wanted_is_asked_of_the_leader_too(node) -> None:
    """
    A follower that forgot which one would give the first page for ever.
    """
    node.be(role="follower", leader="b")
    wire = Wire()
    wire.answer = Answer(200, {"node": "b", "role": "leader", "queues": [], "next": None})
    request(node, "GET", "/queues?limit=1&after=a%2Fb", wire=wire)
    assert wire.asked == [
        (("127.0.0.1:8162", "0b" * 16), "GET", "/queues?limit=1&after=a%2Fb", None)
    ]


def test_single_queues_are_in_the_metrics_on_request(node) -> None:
    """
    The sums are in every answer.
    """
    plain = request(node, "GET", "/metrics").text
    assert "holdfast_queues_messages 12.0" in plain
    assert "{queue=" not in plain
    assert '{queue="mail"} 9.0' in request(node, "GET", "/metrics?queues=top:1").text
    assert request(node, "GET", "/metrics?queues=top:0").status_code == 400


def test_queues_are_not_asked_for_in_a_circle(node) -> None:
    """
    A forwarded question, or one without a known leader, is answered here.
    """
    node.be(role="follower", leader="b")
    answer = request(node, "GET", "/queues", wire=Wire(), headers={FORWARDED_HEADER: "c"})
    assert answer.json()["node"] == "a"


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, True),
        ({"client": FAR}, True),
        ({"proof": admin_token(SECRET)}, True),
        ({"proof": ""}, False),
        ({"proof": admin_token(b"")}, False),
        ({"headers": {"origin": "http://evil.example"}}, False),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/queues/mail/purge"),
        ("DELETE", "/queues/mail"),
        ("POST", "/cluster/transfer"),
        ("GET", "/log?from=1"),
        ("GET", "/log/position"),
        ("GET", "/segments"),
        ("GET", "/connections"),
        ("GET", "/holds"),
        ("POST", "/holds/x"),
        ("GET", "/what/comes/next"),
    ],
)
def test_changes_and_what_reveals_messages_need_a_proof(
    node, method: str, path: str, options: dict[str, Any], allowed: bool
) -> None:
    """
    Also from this machine, where every web page and every user can reach the port.
    """
    answer = request(node, method, path, **options)
    assert (answer.status_code != 403) is allowed
    assert allowed or not node.changes


def test_numbers_and_names_are_told_to_all(node) -> None:
    """
    Balancers, Prometheus and whoever looks for the leader know no secret.
    """
    for path in ("/health", "/ready", "/status", "/queues", "/metrics"):
        assert request(node, "GET", path, client=FAR, proof="").status_code == 200


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (MembershipError("no"), 409, "membership"),
        (QuorumLostError("no"), 503, "quorum-lost"),
        (StoreFullError("no"), 507, "store-full"),
        (TransactionError("no"), 409, "refused"),
        (LinkLostError("no"), 502, "link-lost"),
    ],
)
def test_each_kind_of_refusal_has_its_status(node, failure, status: int, code: str) -> None:
    """
    Programs read the code, people the sentence.
    """
    node.failure = failure
    answer = request(node, "POST", "/cluster/transfer")
    assert (answer.status_code, answer.json()["error"]) == (status, {"code": code, "message": "no"})


def test_a_change_that_takes_too_long_is_no_mistake_of_ours(node) -> None:
    """
    The log goes on without an answer; the operator is told that the change may still be made.
    """
    node.failure = TimeoutError()
    answer = request(node, "POST", "/queues/mail/purge")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "quorum-lost")


@pytest.mark.parametrize(
    ("path", "content", "status", "word"),
    [
        ("/cluster/add", b"{", 400, "body"),
        ("/cluster/add", b'{"name": "d d", "address": "h:1"}', 400, "name"),
        ("/cluster/add", b'{"name": "d", "address": "h"}', 400, "address"),
        ("/cluster/add", b'{"name": "d", "address": "h:65536"}', 400, "address"),
        ("/cluster/add", '{"name": "d", "address": "h:\u0663"}'.encode(), 400, "address"),
        ("/cluster/add", b'{"name": "d", "address": "h:1", "kind": "boss"}', 400, "kind"),
        ("/cluster/remove", b'{"nam": "d"}', 400, "nam: extra"),
        ("/cluster/remove", b" " * (BODY_BYTES_MAX + 1), 413, "too large"),
        ("/nothing", b"", 404, "Not Found"),
        ("/status", b"", 405, "Method"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    node, path: str, content: bytes, status: int, word: str
) -> None:
    """
    The same shape of error for every mistake.
    """
    answer = request(node, "POST", path, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "request"
    assert word in answer.json()["error"]["message"]


def test_named_readers_are_told_with_a_proof_only(node) -> None:
    """
    Who asks for `/holds` needs one, so what is open does not tell the same; it tells of an alarm.
    """
    near = HoldStatus(name="archive-to-bucket", held_bytes=9, bytes_max=10, is_near_bound=True)
    node.be(holds=(near, replace(near, name="notebook", is_near_bound=False)))
    for path in ("/status", "/metrics"):
        assert "notebook" in request(node, "GET", path).text
        assert "notebook" not in request(node, "GET", path, proof="wrong").text
    assert "holds" not in request(node, "GET", "/status", proof="wrong").json()
    assert len(request(node, "GET", "/status").json()["holds"]) == 2
    for proof in (LOCAL, "wrong"):
        text = request(node, "GET", "/metrics", proof=proof).text
        assert "holdfast_holds 2.0" in text
        assert "holdfast_holds_alarm 1.0" in text
    page = {"origin": "http://evil"}
    assert "notebook" not in request(node, "GET", "/status", headers=page).text
