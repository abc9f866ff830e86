"""Tests of replication/secret_doubt.py: whose secret is the wrong one."""

from __future__ import annotations

from holdfast.replication.secret_doubt import SecretDoubt


def test_nothing_is_said_before_there_was_time_to_meet_others() -> None:
    """Else one that is right would say at its start that it may be wrong."""
    doubt = SecretDoubt("a", 1.0)

    assert "" == doubt.note("c", [], 5.0)
    assert "" == doubt.note("c", [], 5.9)
    told = doubt.note("c", ["b"], 6.0)
    assert "c has another cluster secret than a and b: look at the secret file there" == told


def test_who_is_refused_by_all_is_wrong() -> None:
    """By one alone it may be either; a link ends the doubt."""
    doubt = SecretDoubt("c", 0.0)

    assert "c and a do not have the same cluster secret" in doubt.note("a", [], 0.0)
    assert doubt.note("b", [], 0.0).startswith("c has the wrong cluster secret: a and b, all that")
    doubt.forget("a")
    assert "c and b do not have the same cluster secret" in doubt.note("b", [], 0.0)
