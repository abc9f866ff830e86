"""What must not travel in clear."""

from __future__ import annotations

from http.client import HTTPConnection
from ssl import SSLSocket
from types import SimpleNamespace

import pytest

from holdfast.admin import in_clear
from holdfast.admin.in_clear import require_private
from holdfast.errors import ConfigError


def socket_between(here: str, there: str):
    return SimpleNamespace(getpeername=lambda: (there, 1), getsockname=lambda: (here, 2))


@pytest.mark.parametrize(
    ("here", "there", "may"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("::1", "::1", True),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::2", False),
    ],
)
def test_a_secret_leaves_the_machine_by_tls_only(here: str, there: str, may: bool) -> None:
    """By what the open connection is, not by what a name was thought to mean."""
    plain, sealed = HTTPConnection("node", 8161), HTTPConnection("node", 8161)
    plain.sock = socket_between(here, there)
    sealed.sock = SSLSocket.__new__(SSLSocket)
    require_private(sealed)
    if may:
        require_private(plain)
        return
    with pytest.raises(ConfigError) as refused:
        require_private(plain)
    assert "node:8161 is another machine and is asked in clear" in str(refused.value)


def test_it_opens_the_connection_first() -> None:
    """What is not there yet is nowhere."""
    connection = HTTPConnection("node", 8161)

    def connect() -> None:
        connection.sock = socket_between("127.0.0.1", "127.0.0.1")

    connection.connect = connect
    require_private(connection)
    assert connection.sock is not None


def test_another_person_of_this_machine_is_sent_no_secret(monkeypatch) -> None:
    """Who listens where a node is stopped; by TLS the certificate says who it is."""
    monkeypatch.setattr(in_clear, "why_not_told", lambda there, here: f"eve has {there[1]}")
    plain, sealed = HTTPConnection("node", 8161), HTTPConnection("node", 8161)
    plain.sock = socket_between("127.0.0.1", "127.0.0.1")
    sealed.sock = SSLSocket.__new__(SSLSocket)
    require_private(sealed)
    with pytest.raises(ConfigError, match=r"node:8161 is not asked: eve has 1"):
        require_private(plain)
