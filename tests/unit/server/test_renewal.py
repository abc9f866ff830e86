"""
Certificates read again while a node runs: all or none, one reading at a time.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest
import structlog.testing

from holdfast.errors import ConfigError
from holdfast.server import renewal
from holdfast.server.renewal import Renewal
from holdfast.transport.certificates import make_client, make_node, open_authority
from holdfast.transport.tls import ServerTls, TlsOptions


class Signals:
    """Who hears a SIGHUP."""

    reload = None


@pytest.fixture
def shown(tmp_path: Path) -> list[ServerTls]:
    authority, _ = open_authority(tmp_path)
    for name in ("a", "b"):
        make_node(authority, tmp_path / f"{name}.pem", name, [], 1)
    return [ServerTls(TlsOptions(name=name, certificate=tmp_path / f"{name}.pem")) for name in "ab"]


async def settle(it: Renewal) -> None:
    while it._reading is not None:
        await it._reading


def test_a_signal_has_all_read_again(shown) -> None:
    """It comes on a thread of its own; each port then goes by a new context."""

    async def scenario() -> None:
        signals = Signals()
        it = Renewal(signals)
        it.begin(shown)
        before = [each.context for each in shown]
        thread = threading.Thread(target=signals.reload)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        await settle(it)
        assert all(each.context is not old for each, old in zip(shown, before, strict=True))

    with structlog.testing.capture_logs() as lines:
        asyncio.run(scenario())
    assert [line["tls"] for line in lines] == ["a, b"]


def test_what_cannot_be_used_changes_nothing(shown, tmp_path: Path) -> None:
    """Not even what is well: both belong to one renewal, and the log says what is wrong."""
    (tmp_path / "b.pem").write_text("broken")

    async def scenario() -> None:
        it = Renewal()
        it.begin(shown)
        before = [each.context for each in shown]
        it.ask()
        await settle(it)
        assert [each.context for each in shown] == before
        with pytest.raises(ConfigError, match=r"tls\.b\.certificate"):
            await it.renew()

    with structlog.testing.capture_logs() as lines:
        asyncio.run(scenario())
    assert [line["log_level"] for line in lines] == ["error"]
    assert "b.pem" in lines[0]["reason"]


def test_what_is_asked_for_meanwhile_is_done_once_more(shown, monkeypatch) -> None:
    """The files may have changed behind the reader; ten askers are one."""
    readings: list[int] = []
    real = renewal.read_again

    def counted(given):
        readings.append(len(given))
        return real(given)

    monkeypatch.setattr(renewal, "read_again", counted)

    async def scenario() -> None:
        it = Renewal()
        it.begin(shown)
        for _ in range(10):
            it.ask()
        await asyncio.sleep(0)
        await settle(it)

    asyncio.run(scenario())
    assert readings == [2, 2]


def test_a_node_without_tls_leaves_signals_alone() -> None:
    """They are told as they always were: there is nothing to be read again."""
    signals = Signals()

    async def scenario() -> None:
        Renewal(signals).begin([])

    asyncio.run(scenario())
    assert signals.reload is None


def test_a_signal_at_the_end_of_a_node_is_told(shown) -> None:
    """Its loop is gone already: the thread that hears of signals must not die by it."""
    signals = Signals()

    async def scenario() -> None:
        Renewal(signals).begin(shown)

    asyncio.run(scenario())
    with structlog.testing.capture_logs() as lines:
        signals.reload()
    assert "at its end" in lines[0]["event"]


@pytest.fixture
def peers(tmp_path: Path) -> ServerTls:
    """What member `a` goes by."""
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    options = TlsOptions(
        name="peers",
        certificate=tmp_path / "a.pem",
        client_ca=tmp_path / "ca.pem",
        client="required",
    )
    return ServerTls(options, dials=True)


async def renewed(peers: ServerTls, **about: str) -> list[str]:
    it = Renewal()
    it.begin([peers], **about)
    return await it.renew()


def put(tmp_path: Path, how: str) -> None:
    """Put another file in the place of member a's: good by itself, and wrong for that member."""
    authority, _ = open_authority(tmp_path / "other" if how == "authority" else tmp_path)
    make = make_client if how == "client" else partial(make_node, hosts=[])
    make(authority, tmp_path / "a.pem", "somebody" if how == "name" else "a", days=1)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("name", "is that of .*somebody, not of a"),
        ("authority", "does not take it: unable to get local issuer"),
        ("client", "does not take it: .*purpose"),
    ],
)
def test_what_would_link_a_member_with_nobody_is_refused(
    peers, tmp_path: Path, how: str, why: str
) -> None:
    """
    The links stay, so nobody would know before the next failover, which would find no majority.
    """
    put(tmp_path, how)
    before = peers.used
    with pytest.raises(ConfigError, match=rf"tls\.peers\.certificate: .*no member: .*{why}"):
        asyncio.run(renewed(peers, member="a"))
    assert peers.used == before
    assert asyncio.run(renewed(peers)) == ["peers"], "without such links it is good"


def test_what_is_no_worse_is_taken_and_told(peers, tmp_path: Path) -> None:
    """
    Of a member that nobody is linked with by what it has now, other tables may be renewed.
    """
    put(tmp_path, "name")
    peers.use(peers.read())
    with structlog.testing.capture_logs() as lines:
        assert asyncio.run(renewed(peers, member="a")) == ["peers"]
    assert any("no member" in line.get("notice", "") for line in lines)
    put(tmp_path, "well")
    with structlog.testing.capture_logs() as lines:
        assert asyncio.run(renewed(peers, member="a")) == ["peers"]
    assert not any("no member" in line.get("notice", "") for line in lines)


def test_an_authority_is_replaced_step_by_step(peers, tmp_path: Path) -> None:
    """Both are believed, the new certificate is shown, the old authority is left out: as told."""
    (tmp_path / "other").mkdir()
    other, _ = open_authority(tmp_path / "other")
    new = (tmp_path / "other" / "ca.pem").read_text()
    old = (tmp_path / "ca.pem").read_text()
    (tmp_path / "ca.pem").write_text(old + new)
    assert asyncio.run(renewed(peers, member="a"))
    make_node(other, tmp_path / "a.pem", "a", [], 1)
    assert asyncio.run(renewed(peers, member="a"))
    (tmp_path / "ca.pem").write_text(new)
    assert asyncio.run(renewed(peers, member="a"))
    (tmp_path / "ca.pem").write_text(old)
    with pytest.raises(ConfigError, match="no member"):
        asyncio.run(renewed(peers, member="a"))


def test_who_prepares_may_refuse(shown) -> None:
    """It is asked before anything counts."""

    def refuse(made: object) -> None:
        raise ConfigError(["no room"])

    async def scenario() -> None:
        it = Renewal()
        it.begin(shown)
        it.prepare = refuse
        before = [each.used for each in shown]
        with pytest.raises(ConfigError, match="no room"):
            await it.renew()
        assert [each.used for each in shown] == before

    asyncio.run(scenario())
