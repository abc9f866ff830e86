"""
Certificates read again while a node runs: all or none, one reading at a time.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import structlog.testing

from holdfast.errors import ConfigError
from holdfast.server import renewal
from holdfast.server.renewal import Renewal
from holdfast.transport.certificates import make_node, open_authority
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
