"""
The dialer: the plan and the fence at work on real sockets.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client import finder
from holdfast.client import link as link_module
from holdfast.client.dialer import Dialer
from holdfast.client.link import Link
from holdfast.client.settings import ClientSettings
from holdfast.client.uri import parse_uri
from holdfast.discovery import opening
from holdfast.discovery.candidates import Answer, Candidate, NoAnswer
from holdfast.environment.randomness import SystemRandomness
from holdfast.errors import (
    AuthenticationError,
    CertificateError,
    ConfigError,
    FailoverExhaustedError,
    HoldfastError,
    LinkLostError,
)
from holdfast.protocols.stomp.frames import Frame
from holdfast.transport.certificates import Authority, make_node, open_authority


class Deaf:
    def frames_received(self, link: Link, frames: list[Frame]) -> None: ...

    def link_lost(self, link: Link, error: HoldfastError) -> None: ...


def dialer_for(uri: str) -> Dialer:
    return Dialer(parse_uri(uri), ClientSettings(), SystemRandomness())


async def test_addresses_are_tried_until_one_answers() -> None:
    """Without a pause within a pass."""
    async with ScriptedBroker() as dead:
        pass
    async with ScriptedBroker() as alive:
        link = await dialer_for(dead.failover(alive)).open(Deaf())
        assert str(link.address) == alive.uri
        link.close()


async def test_every_address_tells_why_it_failed() -> None:
    """The error of an exhausted plan names them all."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        pass
    uri = one.failover(two, options="maxReconnectAttempts=1")
    with pytest.raises(FailoverExhaustedError) as exhausted:
        await dialer_for(uri).open(Deaf())
    assert str(one.port) in str(exhausted.value)
    assert str(two.port) in str(exhausted.value)


async def test_a_plain_uri_raises_its_own_error() -> None:
    """One attempt, and what became of it."""
    async with ScriptedBroker() as dead:
        pass
    with pytest.raises(LinkLostError, match="cannot be reached"):
        await dialer_for(dead.uri).open(Deaf())


async def test_the_term_is_remembered_and_its_absence_accepted() -> None:
    """A broker that is no Holdfast tells no term."""
    async with ScriptedBroker(Store(term=3)) as broker:
        dialer = dialer_for(broker.uri)
        (await dialer.open(Deaf())).close()
        assert dialer.fence.term == 3
        broker.greeting = dict
        (await dialer_for(broker.uri).open(Deaf())).close()


async def test_the_promotion_that_a_cluster_goes_on_by_is_remembered() -> None:
    """A lower term of a later one is believed; what is none is as if it were not told."""
    async with ScriptedBroker() as broker:
        fence = dialer_for(broker.uri).fence
        for told, term, promotion in [("1-500", "9", (1, 500)), ("1-900", "7", (1, 900))]:
            broker.greeting = {"holdfast_term": term, "holdfast_promotion": told}.copy
            dialer = dialer_for(broker.uri)
            dialer.fence = fence
            (await dialer.open(Deaf())).close()
            assert (fence.term, fence.promotion) == (int(term), promotion)
        broker.greeting = {"holdfast_term": "8", "holdfast_promotion": "what"}.copy
        dialer = dialer_for(broker.uri)
        dialer.fence = fence
        with pytest.raises(LinkLostError, match="before a promotion"):
            await dialer.open(Deaf())


async def test_a_long_search_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once every warnAfterReconnectAttempts passes."""
    async with ScriptedBroker() as dead:
        pass
    uri = dead.failover(options="maxReconnectAttempts=3&warnAfterReconnectAttempts=2")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.client"), pytest.raises(FailoverExhaustedError):
        await dialer_for(uri).open(Deaf())
    assert [record.args[0] for record in caplog.records] == [2]


async def test_what_every_address_says_for_good_is_raised_at_the_start() -> None:
    """Neither broker knows the passcode: without this it would ask them again for ever."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.refuse_connect = ("authentication-failed", "who are you")
        with pytest.raises(AuthenticationError, match="who are you") as raised:
            await dialer_for(one.failover(two)).open(Deaf())
        text = "\n".join([str(raised.value), *raised.value.__notes__])
        assert one.uri in text
        assert two.uri in text


@pytest.mark.parametrize(
    "address", ["stomp+ssl://127.0.0.1:{port}?caFile=/nowhere.pem", "stomp://127.0.0.1:{port}"]
)
async def test_a_mistake_at_this_end_is_raised_at_the_start(address: str) -> None:
    """A file that is not there, a login that no frame can say: no broker will change that."""
    async with ScriptedBroker() as broker:
        target = parse_uri(f"failover:({address.format(port=broker.port)})")
        settings = ClientSettings(login="\udce9" if target.addresses[0].tls is None else None)
        with pytest.raises(ConfigError):
            await Dialer(target, settings, SystemRandomness()).open(Deaf())


async def test_a_client_id_that_no_broker_takes_is_raised_at_the_start() -> None:
    """It is refused as a header that makes no sense: each broker says so, for ever."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.refuse_connect = ("bad-header", "a client-id of 2,000 bytes; at most 1,024")
        with pytest.raises(ConfigError, match="at most 1,024"):
            await dialer_for(one.failover(two)).open(Deaf())


async def test_a_failure_for_good_is_warned_of_while_another_address_may_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One broker refuses us for good, the other is only away: it goes on, and not in silence."""
    async with ScriptedBroker() as one, ScriptedBroker() as away:
        one.refuse_connect = ("authentication-failed", "who are you")
        away.kill()
        uri = one.failover(away, options="maxReconnectAttempts=3&randomize=false")
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "holdfast.client"),
            pytest.raises(FailoverExhaustedError),
        ):
            await dialer_for(uri).open(Deaf())
        assert ["who are you" in record.getMessage() for record in caplog.records] == [True]


async def test_after_the_start_a_failure_for_good_does_not_end_the_search() -> None:
    """A passcode or a certificate that is being changed comes right again."""
    async with ScriptedBroker() as broker:
        dialer = dialer_for(broker.failover(options="maxReconnectAttempts=2"))
        link = await dialer.open(Deaf())
        dialer.lost(link.address, was_useful=True)
        broker.refuse_connect = ("authentication-failed", "who are you")
        with pytest.raises(FailoverExhaustedError, match="2 passes"):
            await dialer.open(Deaf())
        link.close()


async def test_nothing_is_tried_where_reconnecting_is_forbidden() -> None:
    """maxReconnectAttempts=0 after a loss."""
    async with ScriptedBroker() as broker:
        dialer = dialer_for(broker.failover(options="maxReconnectAttempts=0"))
        link = await dialer.open(Deaf())
        dialer.lost(link.address, was_useful=True)
        with pytest.raises(FailoverExhaustedError, match="allows no reconnecting"):
            await dialer.open(Deaf())
        link.close()


# Brokers that are found -----------------------------------------------------------------------


class Found:
    """DNS, as far as the dialer is concerned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outcome: Answer | NoAnswer = NoAnswer("the nameserver is away")
        monkeypatch.setattr(finder, "open_dns", lambda: lambda question, seconds: self.outcome)

    def tell(self, *brokers: ScriptedBroker) -> None:
        candidates = [Candidate("127.0.0.1", it.port, "orders.test") for it in brokers]
        self.outcome = Answer(tuple(candidates), 60.0)


async def test_a_broker_is_found_and_asked_for_by_the_name_that_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The `host` header is what a user knows it by, not the address that DNS has told."""
    dns = Found(monkeypatch)
    async with ScriptedBroker() as broker:
        dns.tell(broker)
        link = await dialer_for("discovery:dns:orders.test").open(Deaf())
        assert broker.uri == str(link.address)
        link.close()
        assert b"host:orders.test" in broker.connections[0].received


async def test_where_nothing_is_found_the_source_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Passes are counted and warned of as those over addresses that do not answer."""
    Found(monkeypatch)
    caplog.clear()
    uri = "discovery:dns:orders.test?maxReconnectAttempts=1&warnAfterReconnectAttempts=1"
    with (
        caplog.at_level(logging.WARNING, "holdfast.client"),
        pytest.raises(FailoverExhaustedError) as raised,
    ):
        await dialer_for(uri).open(Deaf())
    why = "dns:orders.test: the nameserver is away"
    assert f"no broker answered in 1 passes over the addresses: {why}" == str(raised.value)
    assert f"no broker found in 1 passes over the addresses; last: {why}" in caplog.messages


async def test_who_was_left_out_is_no_more_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said of us is forgotten as well: it was one of two, and the other lets us in."""
    dns = Found(monkeypatch)
    async with ScriptedBroker() as old, ScriptedBroker() as away, ScriptedBroker() as new:
        away.kill()
        old.refuse_connect = ("authentication-failed", "who are you")
        dns.tell(old, away)
        dialer = dialer_for("discovery:dns:orders.test?initialReconnectDelay=1")
        opening = asyncio.create_task(dialer.open(Deaf()))
        while dialer._plan.failed_passes < 2:
            await asyncio.sleep(0)
        dns.tell(new)
        for asked in dialer._finder._asked:
            asked.candidates.due_at = 0.0
        link = await opening
        assert new.uri == str(link.address)
        assert {} == dialer._verdicts
        link.close()


async def test_what_all_that_were_found_say_for_good_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A passcode that is wrong at each of them; as with addresses that were written down."""
    dns = Found(monkeypatch)
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.refuse_connect = ("authentication-failed", "who are you")
        dns.tell(one, two)
        with pytest.raises(AuthenticationError, match="who are you"):
            await dialer_for("discovery:dns:orders.test").open(Deaf())


async def test_a_broker_of_an_older_term_is_not_believed_wherever_it_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS finds; it does not trust."""
    dns = Found(monkeypatch)
    async with ScriptedBroker(Store(term=5)) as broker:
        dns.tell(broker)
        dialer = dialer_for("discovery:dns:orders.test?maxReconnectAttempts=1")
        dialer.fence.term = 9
        with pytest.raises(FailoverExhaustedError, match="term 9 was seen before"):
            await dialer.open(Deaf())


async def test_a_broker_that_is_not_believed_is_told_of_at_once_and_by_its_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Not only what the last address of a pass said; and where it goes on leading it is believed.
    """
    caplog.clear()
    async with ScriptedBroker() as dead:
        pass
    async with ScriptedBroker(Store(term=2)) as broker:
        options = "randomize=false&warnAfterReconnectAttempts=2&maxReconnectDelay=1"
        dialer = dialer_for(broker.failover(dead, options=options))
        dialer.fence.cluster, dialer.fence.term = broker.store.cluster, 10**17
        begun = dialer._loop.time()
        monkeypatch.setattr("holdfast.client.failover.TERM_DOUBT_SECONDS", 0.1)
        (await dialer.open(Deaf())).close()
        assert dialer._loop.time() - begun >= 0.1
    refused = f"{broker.port} is not used: it leads term 2, a leader of term {10**17} was seen"
    told = [it.getMessage() for it in caplog.records if it.levelname == "WARNING"]
    assert refused in told[0]
    assert sum(it.startswith("stomp") and refused in it for it in told) == 1
    passes = [it for it in told if it.startswith("no broker found in")]
    assert all(refused in it and f"{dead.port} cannot be reached" in it for it in passes)
    assert passes
    assert f"term {10**17}, of which was heard before, is none" in told[-1]


async def test_whoever_forges_dns_gets_no_passcode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    He has a certificate of an authority that we believe, for a name of his own, and has DNS tell
    that name. It is not the one that the user wrote, so nothing is said to him.
    """
    authority, _ = open_authority(tmp_path)
    dns = Found(monkeypatch)
    async with tls_broker(authority, tmp_path, "evil.test") as evil:
        async with tls_broker(authority, tmp_path, "orders.test") as true:
            dns.tell(evil, true)
            uri = f"discovery:dns:orders.test?ssl=true&caFile={tmp_path}/ca.pem&randomize=false"
            dialer = Dialer(
                parse_uri(uri), ClientSettings(login="ann", passcode="secret"), SystemRandomness()
            )
            link = await dialer.open(Deaf())
            assert true.port == link.address.port
            assert b"secret" in true.connections[0].received
            link.close()
            assert [] == evil.events
            dns.tell(evil)
            uri = uri.replace("randomize=false", "maxReconnectAttempts=1")
            with pytest.raises(CertificateError, match="Hostname mismatch"):
                await dialer_for(uri).open(Deaf())


def tls_broker(authority: Authority, folder: Path, name: str) -> ScriptedBroker:
    path = folder / f"{name}.pem"
    if not path.exists():
        make_node(authority, path, name, [name], 30)
    broker = ScriptedBroker()
    broker.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.tls.load_cert_chain(path)
    return broker


async def test_a_passcode_in_clear_stays_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever address DNS tells: `plainWithoutTls` is the user's word, and was not said."""
    dns = Found(monkeypatch)
    async with ScriptedBroker() as broker:
        dns.tell(broker)
        monkeypatch.setattr(link_module, "is_same_machine", lambda _there, _here: False)
        settings = ClientSettings(login="ann", passcode="secret")
        uri = "discovery:dns:orders.test"
        with pytest.raises(ConfigError, match="plainWithoutTls"):
            await Dialer(parse_uri(uri), settings, SystemRandomness()).open(Deaf())
        assert not any(b"secret" in it.received for it in broker.connections)


async def test_without_the_package_that_asks_it_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No waiting would bring it."""
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"holdfast\[discovery\]"):
        dialer_for("discovery:dns:orders.test")
