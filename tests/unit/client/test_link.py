"""
One link: heart-beats, silence, strange greetings, TLS.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_broker import ScriptedBroker

from holdfast.client import connect
from holdfast.client import link as link_module
from holdfast.client.address import Address
from holdfast.client.link import WRITE_BYTES, Link, open_link
from holdfast.client.settings import ClientSettings, TlsSettings
from holdfast.errors import (
    CertificateError,
    ConfigError,
    HoldfastError,
    LinkLostError,
    RemoteProtocolError,
)
from holdfast.protocols.stomp.frames import Frame


class Owner:
    """Keeps what a link tells."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.error: asyncio.Future[HoldfastError] = asyncio.get_running_loop().create_future()

    def frames_received(self, link: Link, frames: list[Frame]) -> None:
        self.frames += frames

    def link_lost(self, link: Link, error: HoldfastError) -> None:
        self.error.set_result(error)


def address_of(broker: ScriptedBroker) -> Address:
    return Address("127.0.0.1", broker.port)


async def test_a_silent_broker_is_given_up() -> None:
    """It promised a sign of life every few milliseconds and gives none."""
    async with ScriptedBroker() as broker:
        broker.heart_beat = "20,0"
        owner = Owner()
        settings = ClientSettings(heart_beat_receive_seconds=0.02)
        link = await open_link(address_of(broker), owner, settings)
        # The codec's grace has a floor meant for real networks.
        link._stomp._beats._incoming_seconds = 0.03
        link._timer.cancel()
        link._plan_deadline()
        error = await owner.error
        assert "sign of life" in str(error)
        assert link.is_closed


async def test_signs_of_life_are_sent() -> None:
    """What the broker wants in time it gets, again and again."""
    async with ScriptedBroker() as broker:
        broker.heart_beat = "0,10"
        link = await open_link(
            address_of(broker), Owner(), ClientSettings(heart_beat_send_seconds=0.01)
        )
        await broker.saw(lambda: broker.connections[0].received.endswith(b"\0\n\n"))
        link.close()


async def test_a_link_that_is_not_read_is_not_silent() -> None:
    """While we leave the socket unread, silence is our own doing."""
    async with ScriptedBroker() as broker:
        broker.heart_beat = "20,10"
        owner = Owner()
        link = await open_link(
            address_of(broker),
            owner,
            ClientSettings(heart_beat_send_seconds=0.01, heart_beat_receive_seconds=0.02),
        )
        link.pause_reading()
        link._stomp._beats._incoming_seconds = 0.0001
        link._deadline_passed()
        assert not link.is_closed
        link.resume_reading()
        link.close()


async def test_large_writes_do_not_wait_for_the_turn() -> None:
    """What is gathered has a limit."""
    async with ScriptedBroker() as broker:
        link = await open_link(address_of(broker), Owner(), ClientSettings())
        link.write(b"\n")
        assert link._gathered
        link.write(b"\n" * WRITE_BYTES)
        assert not link._gathered
        link.close()
        link.write(b"\n")


async def test_what_the_peer_cannot_mean_ends_the_link() -> None:
    """Bytes that are no STOMP are a RemoteProtocolError."""
    async with ScriptedBroker() as broker:
        owner = Owner()
        await open_link(address_of(broker), owner, ClientSettings())
        broker.connections[0].transport.write(b"NONSENSE\n\n\0")
        assert isinstance(await owner.error, RemoteProtocolError)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"CONNECTED\nversion:1.1\n\n\0", "speaks STOMP 1.1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unknown command"),
        (b"ERROR\nmessage:go away\n\n\0", "go away"),
        (b"ERROR\n\nbody only\0", "body only"),
    ],
)
async def test_strange_greetings_are_told(answer: bytes, words: str) -> None:
    """Whatever answers CONNECT with something else is no broker for us."""
    async with ScriptedBroker() as broker:
        serve = broker.refuse

        def greet(event: object) -> None:
            broker.connections[-1].transport.write(answer)
            broker.refuse = serve

        broker.refuse = greet
        broker.greeting = lambda: {"version": "1.1"}
        with pytest.raises(RemoteProtocolError, match=words):
            await open_link(address_of(broker), Owner(), ClientSettings())


async def test_a_broker_that_never_answers_is_not_waited_for() -> None:
    """The time from socket to CONNECTED is limited."""
    async with ScriptedBroker() as broker:
        broker.is_deaf = True
        with pytest.raises(LinkLostError, match="within"):
            await open_link(address_of(broker), Owner(), ClientSettings(connect_seconds_max=0.01))


@pytest.mark.parametrize(
    ("is_allowed", "said_by_uri", "is_sent"),
    [
        *((False, None, False), (True, None, True), (False, True, True)),
        *((True, False, False),),
    ],
)
async def test_a_passcode_leaves_this_machine_in_clear_only_where_that_is_wanted(
    monkeypatch, is_allowed, said_by_uri, is_sent
) -> None:
    """
    The broker would refuse it, once it was read on the way: nothing at all is sent.

    What the URI says goes before the setting. Without a passcode nothing is secret.
    """
    monkeypatch.setattr(link_module, "is_same_machine", lambda _there, _here: False)
    async with ScriptedBroker() as broker:
        address = replace(address_of(broker), plain_without_tls=said_by_uri)
        settings = ClientSettings(login="ann", passcode="secret", plain_without_tls=is_allowed)
        if is_sent:
            link = await open_link(address, Owner(), settings)
            link.close()
        else:
            with pytest.raises(ConfigError, match="in clear") as refused:
                await open_link(address, Owner(), settings)
            assert str(address) in str(refused.value)
            assert "secret" not in str(refused.value)
        assert bool(broker.events) == is_sent
        link = await open_link(address, Owner(), ClientSettings(login="ann"))
        link.close()


async def test_on_this_machine_it_is_sent_in_clear() -> None:
    """Nobody reads it on the way; whom it reaches is told in `test_told_in_clear`."""
    async with ScriptedBroker() as broker:
        settings = ClientSettings(login="ann", passcode="secret")
        link = await open_link(address_of(broker), Owner(), settings)
        link.close()
        assert b"passcode:secret" in broker.connections[0].received


async def test_connecting_can_be_cancelled() -> None:
    """The half-open link is closed."""
    async with ScriptedBroker() as broker:
        broker.is_deaf = True
        opening = asyncio.create_task(open_link(address_of(broker), Owner(), ClientSettings()))
        await broker.saw(lambda: True)
        for _ in range(3):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and its key in one file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=holdfast"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / "key.pem", "-out", folder / "certificate.pem"),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both


async def test_a_secure_link_needs_a_certificate_we_believe(certificate: Path) -> None:
    """With the authority's file it works, by URI or by setting; without it is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    broker = ScriptedBroker()
    broker.tls = context
    async with broker:
        uri = f"stomp+ssl://127.0.0.1:{broker.port}"
        with pytest.raises(CertificateError, match="not trusted"):
            await connect(uri)
        async with connect(f"{uri}?caFile={certificate}") as connection:
            await connection.send("/queue/a", b"1")
        async with connect(uri, tls=TlsSettings(ca_file=str(certificate))) as connection:
            await connection.send("/queue/a", b"2")
        assert broker.store.bodies("/queue/a") == [b"1", b"2"]


async def test_a_link_that_the_broker_ended_first_ends_without_a_fault(certificate: Path) -> None:
    """
    Python's own TLS takes itself for closed once the other end is; closed once more it forgets what
    it stands on, and the end of the loop could not end it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    broker = ScriptedBroker()
    broker.tls = context
    async with broker:
        owner = Owner()
        secured = Address("127.0.0.1", broker.port, tls=TlsSettings(ca_file=str(certificate)))
        link = await open_link(secured, owner, ClientSettings())
        assert link._transport is not None
        broker.hang_up()
        while not link._transport.is_closing():
            await asyncio.sleep(0)
        link.close()
        assert link._goodbye is not None
        await asyncio.sleep(0)
        link._goodbye.cancel()
        await asyncio.wait({link._goodbye})
        assert link._goodbye.cancelled()
