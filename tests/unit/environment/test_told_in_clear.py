"""Whether a secret may be told in clear to who has the other end on this machine."""

from __future__ import annotations

import pytest

from holdfast.environment import told_in_clear
from holdfast.environment.node_users import VARIABLE
from holdfast.environment.told_in_clear import why_not_told

EVE = 12_345
ENDS = ("127.0.0.1", 61613), ("127.0.0.1", 5000)


def test_the_reason_says_who_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is no person of this machine is told, and where nothing is known so is everybody."""
    told: list[frozenset[int] | None] = [frozenset({EVE})]
    monkeypatch.setattr(told_in_clear, "answerers_users", lambda *_: told[-1])
    monkeypatch.delenv(VARIABLE, raising=False)
    assert f"user {EVE} of this machine" in why_not_told(*ENDS)
    assert f"{VARIABLE}={EVE};" in why_not_told(*ENDS)
    monkeypatch.setenv(VARIABLE, str(EVE))
    assert why_not_told(*ENDS) == ""
    monkeypatch.delenv(VARIABLE)
    for users in (None, frozenset(), frozenset({0})):
        told.append(users)
        assert why_not_told(*ENDS) == ""
