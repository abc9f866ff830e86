"""
Asking a node from the command line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.cli.admin_port import leaders_status, read_queues, read_status, to_ask, to_change
from holdfast.errors import ConfigError, LinkLostError

A = "127.0.0.1:8161"


def test_a_status_is_read_as_a_value(cluster) -> None:
    """
    JSON comes back as the value that the node wrote.
    """
    assert read_status(to_ask(A)).term == 7
    assert read_queues(to_ask(A))[0].name == "mail"


@pytest.mark.parametrize(("path", "read"), [("/status", read_status), ("/queues", read_queues)])
def test_something_else_on_the_port_is_told(cluster, path: str, read) -> None:
    """
    Any JSON server may listen there; it is not taken for a node.
    """
    cluster.say(path, {"hello": "world"})
    with pytest.raises(LinkLostError, match="does not answer like a Holdfast node"):
        read(to_ask(A))


def test_the_secret_is_read_for_changes(tmp_path: Path) -> None:
    """
    The newline of an editor is no part of it; a file that is missing is told.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef\n")
    assert to_change(A, secret).secret == b"0123456789abcdef"
    assert to_change(A, None).secret == b""
    with pytest.raises(ConfigError, match="secret_file"):
        to_change(A, tmp_path / "missing")


def test_the_leaders_view_is_taken_where_it_can_be_had(cluster) -> None:
    """
    A follower's own view stands in while the leader does not answer.
    """
    leader = read_status(to_ask(A))
    follower = replace(leader, name="b", role="follower")
    assert leaders_status(follower, A).name == "a"
    assert leaders_status(leader, A) is leader
    assert leaders_status(replace(follower, leader=None), A).name == "b"
    del cluster.answers[A, "/status"]
    assert leaders_status(follower, A).name == "b"
