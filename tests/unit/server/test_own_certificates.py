"""
Whether a node's own certificates are what the other members will take.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from holdfast.config.shown import Shown
from holdfast.server.own_certificates import Judged, judge
from holdfast.transport import certificates
from holdfast.transport.certificates import make_client, make_node, open_authority
from holdfast.transport.tls import TlsOptions

LONG_AGO = datetime.now(UTC) - timedelta(days=30)


@pytest.fixture
def shown(tmp_path: Path) -> Callable[..., Shown]:
    """What member a at 10.0.0.1 shows, by one file for links and operators."""
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", ["10.0.0.1"], 1)

    def make(name: str = "a", *, links: bool = True, host: str = "10.0.0.1") -> Shown:
        options = TlsOptions(
            name="peers",
            certificate=tmp_path / "a.pem",
            client_ca=tmp_path / "ca.pem",
            client="required",
        )
        return Shown({"peers": options}, name, True, links, "peers", host)

    return make


def put(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put another file in the place of member a's: good by itself, and wrong for that member."""
    authority, _ = open_authority(folder / "other" if how == "authority" else folder)
    if how == "over":
        monkeypatch.setattr(certificates, "_now", lambda: LONG_AGO)
    make = make_client if how == "client" else partial(make_node, hosts=["10.0.0.1"])
    make(authority, folder / "a.pem", "other" if how == "name" else "a", days=1)
    monkeypatch.undo()


def test_what_all_will_take_is_right(shown) -> None:
    """Also where it is not known whose it is to be, or where others ask."""
    assert judge(shown()) == judge(shown("", host="")) == Judged([], [])


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("name", r"is that of localhost, other, not of a: make one for it \(holdfast cert.* a\)"),
        ("authority", "local issuer certificate; have it signed by an authority in client_ca = /"),
        ("client", "purpose; where it says what it is good for"),
        ("over", "expired; it has run out, or its authority has: make a new one"),
    ],
)
def test_what_links_a_member_with_nobody_is_a_mistake(
    shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    """
    It names the file and says what to do; the same file at the admin port keeps out who asks.
    """
    put(tmp_path, how, monkeypatch)
    judged = judge(shown())
    (mistake,) = judged.mistakes
    start = f"tls.peers.certificate: {tmp_path}/a.pem links this node with no member: "
    assert mistake.startswith(start)
    assert re.search(why, mistake)
    if how == "name":
        assert judged.warnings == []
        assert judge(shown("")) == Judged([], []), "whose it is to be is not known"
    else:
        (warning,) = judged.warnings
        assert f"{tmp_path}/a.pem keeps other members from this admin port: " in warning
    assert judge(shown(links=False)).mistakes == []


def test_where_others_ask_must_stand_in_the_admin_ports(shown) -> None:
    """A follower passes changes on by that address, which it checks."""
    judged = judge(shown(host="10.0.0.2"))
    assert judged.mistakes == []
    (warning,) = judged.warnings
    assert "IP address mismatch" in warning
    assert "(holdfast certificates make --node)" in warning


def test_a_file_that_is_gone_meanwhile_is_told_of(shown, tmp_path: Path) -> None:
    """It was there when the configuration was read."""
    it = shown()
    (tmp_path / "a.pem").unlink()
    judged = judge(it)
    assert "cannot be read" in judged.mistakes[0]
    assert "cannot be read" in judged.warnings[0]
