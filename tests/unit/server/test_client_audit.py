"""What the audit file has of clients."""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.errors import AuthenticationError
from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.server.audit_trail import AuditTrail
from holdfast.server.client_audit import audit_clients
from holdfast.sessions.refusals import Refusals
from tests.unit.server.test_audit_trail import Paper


def test_who_comes_in_and_who_is_refused_what_is_noted() -> None:
    """Each time, and nothing of what was shown; what has nothing to do with who it is, is not."""
    paper, told = Paper(), []
    trail = AuditTrail(SimpleNamespace(), SimpleNamespace(wall_microseconds=lambda: 1), paper)
    logins, refusals = SimpleNamespace(notice=None), Refusals()
    refusals.tell = lambda *said: told.append(said)
    parts = SimpleNamespace(
        context=SimpleNamespace(refusals=refusals), access=SimpleNamespace(logins=logins)
    )
    audit_clients(parts, trail)
    ann = Shown("ann", "hunter2", address="192.0.2.1")
    logins.notice(ann, Principal("ann"))
    logins.notice(ann, AuthenticationError("login or passcode is wrong"))
    logins.notice(Shown(certified="db", address="::1"), AuthenticationError("no such user"))
    connection = SimpleNamespace(peer="192.0.2.1:5000")
    session = SimpleNamespace(connection=connection, principal=Principal("ann"), told_kinds=0)
    for _ in range(2):
        refusals.note(session, "forbidden", "user 'ann' may not write /queue/a")
    refusals.note(session, "destination", "no such queue")
    refusals.note(SimpleNamespace(connection=None, principal=None, told_kinds=0), "forbidden", "x")
    noted = [(it["who"], it["address"], it["action"], it["outcome"]) for it in paper.lines]
    assert noted == [
        ("ann", "192.0.2.1", "login", "done"),
        ("ann", "192.0.2.1", "login", "login or passcode is wrong"),
        ("db", "::1", "login", "no such user"),
        ("ann", "192.0.2.1", "refused", "user 'ann' may not write /queue/a"),
        ("ann", "192.0.2.1", "refused", "user 'ann' may not write /queue/a"),
        ("", "", "refused", "x"),
    ]
    assert {it["source"] for it in paper.lines} == {"clients"}
    assert "hunter2" not in repr(paper.lines)
    assert len(told) == 2, "the log of the node has the first of each connection, as before"
