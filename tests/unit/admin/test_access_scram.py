"""
Logins by SCRAM at the gate of the admin port.
"""

from __future__ import annotations

import pytest

from holdfast.admin.by_password import ByPassword
from holdfast.admin.refusals import GOES_ON, IN_CLEAR, UNREADABLE
from holdfast.admin.scram_http import Said, read_challenge, write_authorization
from holdfast.security.scram_exchanges import OVER
from tests.unit.admin.scram_node import PASSWORD, ScramNode

CLEAR_WAYS = 'Basic realm="holdfast", charset="UTF-8", Bearer'


class _Answer:
    """What `http.client` gives of an answer."""

    def __init__(self, status, headers) -> None:
        self.status, self.headers = status, headers


def proof(node: ScramNode, path: str = "/queues", password: str = PASSWORD) -> str:
    """The header that a client ends with, after it has begun."""
    login = ByPassword("ann", password)
    first, header = login.first()
    status, headers, _ = node.ask("GET", path, None, {"Authorization": header})
    shown = login.answer(first, _Answer(status, headers))
    assert shown is not None
    return shown.authorization


def test_it_is_offered_first_and_only_where_it_may_be() -> None:
    """With each 401: a client takes the first way that it knows."""
    node = ScramNode()
    status, headers, _ = node.ask("GET", "/queues", None, {})
    assert (status, headers["WWW-Authenticate"]) == (
        401,
        f'SCRAM-SHA-256 realm="holdfast", {CLEAR_WAYS}',
    )
    status, headers, _ = node.ask("GET", "/queues", None, {"Authorization": "Basic YW5uOng="})
    assert headers["WWW-Authenticate"].startswith("SCRAM-SHA-256 ")
    node.is_offered = False
    for header in ({}, {"Authorization": "Basic YW5uOng="}):
        status, headers, _ = node.ask("GET", "/queues", None, header)
        assert (status, headers["WWW-Authenticate"]) == (401, CLEAR_WAYS)


@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic YW5uOng="}])
def test_whether_it_is_offered_is_known_before_anything_is_answered(header) -> None:
    """After a start or an import many users are to be looked at: nobody is told a no meanwhile."""
    node = ScramNode()
    node.looks_left = 5
    _, headers, _ = node.ask("GET", "/queues", None, header)
    assert node.looks_left == 0
    assert headers["WWW-Authenticate"].startswith("SCRAM-SHA-256 ")


def test_an_exchange_goes_on_by_one_way_and_ends_with_the_nodes_own_proof() -> None:
    """Nothing is done before that; the exchange may be taken up by another path."""
    node = ScramNode()
    _, header = ByPassword("ann", PASSWORD).first()
    status, headers, body = node.ask("POST", "/reload", b"{}", {"Authorization": header})
    assert (status, GOES_ON in body.decode()) == (401, True)
    assert headers["WWW-Authenticate"].startswith("SCRAM-SHA-256 sid=")
    assert "Basic" not in headers["WWW-Authenticate"]
    assert read_challenge([headers["WWW-Authenticate"]]) is not None
    status, headers, body = node.ask("POST", "/reload", b"{}", {"Authorization": proof(node)})
    assert (status, body) == (200, b'{"done":"/reload"}')
    assert headers["Authentication-Info"].startswith("sid=")
    assert headers["Content-Type"] == "application/json"


def test_what_was_seen_opens_nothing_again() -> None:
    """Nor does it count as a guess; who it was is noted, by what he says."""
    node = ScramNode()
    header = {"Authorization": proof(node)}
    assert node.ask("GET", "/queues", None, header)[0] == 200
    status, headers, body = node.ask("GET", "/queues", None, header)
    assert (status, OVER in body.decode()) == (401, True)
    assert headers["WWW-Authenticate"].startswith('SCRAM-SHA-256 realm="holdfast", sid=')
    assert node.refused == [("ann", OVER)]


def test_a_failure_names_who_failed_and_says_no_more_than_in_clear() -> None:
    """Also for paths that are open to everybody."""
    node = ScramNode()
    for path in ("/queues", "/health"):
        status, headers, body = node.ask(
            "GET", path, None, {"Authorization": proof(node, path, "wrong")}
        )
        assert (status, b"login or passcode is wrong" in body) == (401, True)
        failed = read_challenge([headers["WWW-Authenticate"].partition(", Basic")[0]])
        assert failed is not None
        assert failed.message == b"e=invalid-proof"
    assert node.refused == [("ann", "login or passcode is wrong")] * 2


def test_who_has_logged_in_and_may_not_is_told_so_with_the_proof() -> None:
    """The proof says that the node knows him, whatever it answers."""
    node = ScramNode()
    node.principal = lambda _name: None
    record = node.scram._exchanges._record_of("ann")
    record.values = record.values.replace('"admin"', '"viewer"')
    header = proof(node)
    status, headers, body = node.ask("POST", "/reload", b"{}", {"Authorization": header})
    assert (status, b"that takes role admin" in body) == (403, True)
    assert "Authentication-Info" in headers


@pytest.mark.parametrize("header", ["SCRAM-SHA-256 data=", "SCRAM-SHA-256 sid=a"])
def test_a_header_that_cannot_be_read_is_told_so(header: str) -> None:
    """One sentence; nothing is begun."""
    node = ScramNode()
    status, _, body = node.ask("GET", "/queues", None, {"Authorization": header})
    assert (status, UNREADABLE in body.decode()) == (401, True)
    status, _, body = node.ask(
        "GET", "/queues", None, {"Authorization": write_authorization(Said("", b"p=x,,n=a,r=b"))}
    )
    assert (status, b"channel binding is not offered" in body) == (401, True)
    assert len(node.scram._exchanges) == 0


def test_in_clear_from_another_machine_it_is_not_taken_and_a_page_gets_nothing() -> None:
    """Passwords can be tried on what is seen on the way, and what is asked be changed there."""
    node = ScramNode()
    node.client = "192.0.2.7"
    _, header = ByPassword("ann", PASSWORD).first()
    status, _, body = node.ask("GET", "/queues", None, {"Authorization": header})
    assert (status, IN_CLEAR in body.decode()) == (403, True)
    node = ScramNode()
    page = {"Authorization": header, "Origin": "https://example.org"}
    assert node.ask("GET", "/queues", None, page)[0] == 403
    assert len(node.scram._exchanges) == 0


def test_where_it_is_not_offered_its_header_says_nothing() -> None:
    """As at a node of an earlier version: clients go on by what it does offer."""
    node = ScramNode(is_offered=False)
    _, header = ByPassword("ann", PASSWORD).first()
    status, headers, body = node.ask("GET", "/queues", None, {"Authorization": header})
    assert (status, headers["WWW-Authenticate"]) == (401, CLEAR_WAYS)
    assert b"a wrong proof was given" in body
    assert len(node.scram._exchanges) == 0
