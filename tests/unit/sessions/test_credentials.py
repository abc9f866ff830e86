"""
Who a client says it is.
"""

from __future__ import annotations

from holdfast.sessions.credentials import ANONYMOUS, Credential, anybody


def test_a_secret_is_not_shown() -> None:
    """
    A credential stands in traces as anything else does.
    """
    credential = Credential("somebody", "opensesame")
    assert "opensesame" not in f"{credential!r} {credential}"
    assert "somebody" in repr(credential)


def test_without_users_everybody_is_anybody(desk) -> None:
    """
    At once: nobody waits for it.
    """
    session = desk.connect(login="a", passcode="b").session
    assert anybody(session, Credential("a", "b")) is ANONYMOUS
    assert session.principal is ANONYMOUS
