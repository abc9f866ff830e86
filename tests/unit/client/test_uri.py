"""
URIs: the three forms, ActiveMQ's option names, and every mistake named.
"""

from __future__ import annotations

import pytest

from holdfast.client.address import Address
from holdfast.client.discovered import DnsSource
from holdfast.client.failover import FailoverOptions
from holdfast.client.settings import TlsSettings
from holdfast.client.uri import Target, parse_uri
from holdfast.errors import ConfigError


def problems_of(uri: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse_uri(uri)
    return refused.value.problems


def test_a_plain_uri_is_one_address_without_failover() -> None:
    """The port has the usual default, and nothing will reconnect."""
    assert parse_uri("stomp://broker") == Target((Address("broker", 61613),))
    assert parse_uri(" stomp://broker:7/ ") == Target((Address("broker", 7),))


def test_a_secure_uri_has_its_files() -> None:
    """Options of stomp+ssl name the PEM files."""
    target = parse_uri(
        "stomp+ssl://b?caFile=ca.pem&certificateFile=c.pem&keyFile=k.pem&verifyHostName=false"
    )
    tls = TlsSettings(
        ca_file="ca.pem", certificate_file="c.pem", key_file="k.pem", verify_host_name=False
    )
    assert target.addresses == (Address("b", 61614, tls),)


def test_addresses_show_themselves_as_uris() -> None:
    """Without options, and with the brackets an IPv6 address needs."""
    assert str(parse_uri("stomp://[::1]:5").addresses[0]) == "stomp://[::1]:5"
    assert str(parse_uri("stomp+ssl://h:5?caFile=x").addresses[0]) == "stomp+ssl://h:5"


@pytest.mark.parametrize(
    "uri",
    [
        "failover:(stomp://a:1,stomp://b:2)",
        "failover://(stomp://a:1,stomp://b:2)",
        "FAILOVER:( stomp://a:1 , stomp://b:2 , stomp://a:1 )",
        "failover:stomp://a:1,stomp://b:2",
    ],
)
def test_failover_has_several_spellings(uri: str) -> None:
    """All of ActiveMQ's; an address named twice is one."""
    assert parse_uri(uri) == Target((Address("a", 1), Address("b", 2)), FailoverOptions())


def test_the_defaults_are_those_of_activemq() -> None:
    """10 ms, doubling to 30 s, without an end, in random order."""
    options = FailoverOptions()
    assert options.initial_reconnect_seconds == 0.01
    assert options.reconnect_seconds_max == 30
    assert (options.is_exponential, options.pause_factor) == (True, 2.0)
    assert (options.reconnect_attempts_max, options.startup_attempts_max) == (-1, -1)
    assert (options.is_randomized, options.timeout_seconds) == (True, None)
    assert options.warn_after_attempts == 10


def test_every_implemented_option_is_read() -> None:
    """Milliseconds become seconds; -1 of timeout means no timeout."""
    options = parse_uri(
        "failover:(stomp://a)?initialReconnectDelay=20&maxReconnectDelay=5000"
        "&useExponentialBackOff=false&reconnectDelayExponent=1.5&maxReconnectAttempts=3"
        "&startupMaxReconnectAttempts=0&randomize=false&timeout=2500&warnAfterReconnectAttempts=-1"
    ).failover
    assert options == FailoverOptions(
        initial_reconnect_seconds=0.02,
        reconnect_seconds_max=5,
        is_exponential=False,
        pause_factor=1.5,
        reconnect_attempts_max=3,
        startup_attempts_max=0,
        is_randomized=False,
        timeout_seconds=2.5,
        warn_after_attempts=-1,
    )
    again = parse_uri("failover:(stomp://a)?backOffMultiplier=3&timeout=-1").failover
    assert again == FailoverOptions(pause_factor=3.0)


def test_nested_options_go_to_every_address() -> None:
    """`nested.` is stripped; an address's own option goes before."""
    target = parse_uri(
        "failover:(stomp://a,stomp+ssl://b?connectionTimeout=7)?nested.connectionTimeout=500"
    )
    assert [address.connect_seconds_max for address in target.addresses] == [0.5, 0.007]
    target = parse_uri(
        "failover:(stomp://a,stomp://b?plainWithoutTls=false)?nested.plainWithoutTls=true"
    )
    assert [address.plain_without_tls for address in target.addresses] == [True, False]
    assert parse_uri("stomp://a").addresses[0].plain_without_tls is None


@pytest.mark.parametrize(
    "option",
    [
        *("backup=true", "backupPoolSize=2", "priorityBackup=true", "priorityURIs=stomp://a"),
        *("trackMessages=false", "trackTransactionProducers=false", "maxCacheSize=131072"),
        *("updateURIsSupported=true", "updateURIsURL=file:x", "rebalanceUpdateURIs=true"),
        "reconnectSupported=false",
    ],
)
def test_what_is_not_implemented_is_refused_by_name(option: str) -> None:
    """An option that would silently not work is worse than none."""
    (problem,) = problems_of(f"failover:(stomp://a)?{option}")
    assert option.split("=")[0] in problem
    assert "not implemented" in problem


def test_what_is_true_anyway_is_accepted() -> None:
    """A URI that switches off what we have not, or on what we always do, is fine."""
    uri = "failover:(stomp://a)?backup=false&trackMessages=true&updateURIsSupported=false"
    assert parse_uri(uri).failover == FailoverOptions()


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("tcp://a:1", "scheme 'tcp'"),
        ("a:1", "scheme"),
        ("stomp://", "no host"),
        ("stomp://a:99999", "ort"),
        ("stomp://a..b", "no host name"),
        ("failover:(stomp://a,stomp://" + "x" * 64 + ")", "no host name"),
        ("stomp://u:p@a", "not in the URI"),
        ("stomp://a/path", "nothing but options"),
        ("stomp://a?colour=red", "'colour'"),
        ("stomp://a?caFile=x", "stomp+ssl"),
        ("stomp+ssl://a?verifyHostName=maybe", "true or false"),
        ("failover:()", "no address"),
        ("failover:(stomp://a", "not closed"),
        ("failover:(stomp://a)x=1", "after the parenthesis"),
        ("failover:(stomp://a)?colour=red", "'colour'"),
        ("failover:(stomp://a)?maxReconnectDelay=soon", "whole number"),
        ("failover:(stomp://a)?maxReconnectAttempts=-2", "-1 or more"),
        ("failover:(stomp://a)?reconnectDelayExponent=0.5", "1 or more"),
        ("failover:(stomp://a)?randomize=1", "true or false"),
    ],
)
def test_mistakes_are_named(uri: str, words: str) -> None:
    """The sentence contains what is wrong; a password never shows up in it."""
    (problem,) = problems_of(uri)
    assert words in problem
    assert "u:p" not in problem


def test_all_mistakes_are_reported_together() -> None:
    """One round is enough to correct a URI."""
    assert len(problems_of("failover:(tcp://a,stomp://b?x=1)?y=2&randomize=3")) == 4


@pytest.mark.parametrize(
    "uri",
    [
        "tcp://ann:secret@a:1",
        "stomp:ann:secret@a:1",
        "stomp://ann:secret@a:1/x",
        "stomp://ann:secret/x@a:1",
        "stomp://ann:secret#@a:1",
        "stomp://ann:[secret@a:1",
        "stomp://a:1/x?passcode=secret",
        "stomp://a:secret@",
        "failover:(stomp://ann:secret@a:1,tcp://b",
        "failover:(tcp://ann:secret@a:1,tcp://b)",
        "failover:()?passcode=secret",
        "failover:(stomp://a:1)x?passcode=secret",
        "ann:secret@a:1",
        "discovery:(dns:ann:secret@orders.test)",
        "discovery:(static:(stomp://ann:secret@a:1))",
        "discovery:(tcp://ann:secret@a)",
        "discovery:dns:orders.test?passcode=secret",
        "multicast://ann:secret@a",
    ],
)
def test_a_password_in_an_odd_place_is_not_told(uri: str) -> None:
    """URIs end up in logs, and so do the errors about them."""
    with pytest.raises(ConfigError) as caught:
        parse_uri(uri)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(caught.value.problems)


def test_a_discovery_uri_has_sources_and_failover_options() -> None:
    """The options mean what they mean for failover, `nested.` those of every address."""
    target = parse_uri(
        "discovery:(dns:orders.test?port=7,static:(stomp://a,stomp://b))"
        "?maxReconnectAttempts=3&nested.connectionTimeout=500"
    )
    assert FailoverOptions(reconnect_attempts_max=3) == target.failover
    assert () == target.addresses
    found, written = target.sources
    assert isinstance(found, DnsSource)
    assert ("orders.test", 7, 0.5) == (
        found.question.name,
        found.question.port,
        found.template.connect_seconds_max,
    )
    assert written == (
        Address("a", 61613, connect_seconds_max=0.5),
        Address("b", 61613, connect_seconds_max=0.5),
    )


@pytest.mark.parametrize(
    "uri",
    [
        "discovery:(static:(stomp://a:1,stomp://b:2),static:stomp://a:1)",
        "discovery:static:(stomp://a:1,stomp://b:2)",
        "discovery://(static://(stomp://a:1,stomp://b:2))",
        " DISCOVERY:( static:( stomp://a:1 , stomp://b:2 ) ) ",
    ],
)
def test_addresses_that_are_written_need_no_finding(uri: str) -> None:
    """Then it is a failover URI by another name."""
    assert parse_uri(uri) == Target((Address("a", 1), Address("b", 2)), FailoverOptions())


@pytest.mark.parametrize(
    "uri",
    [
        "discovery:dns:orders.test?ssl=true&maxReconnectDelay=5000&caFile=x&nested.keyFile=y",
        "discovery:(dns:orders.test?ssl=true&caFile=x)?maxReconnectDelay=5000&nested.keyFile=y",
        "discovery://dns://orders.test?ssl=true&nested.keyFile=y&caFile=x&maxReconnectDelay=5000",
    ],
)
def test_the_short_form_takes_options_of_both_kinds(uri: str) -> None:
    """They have no name in common."""
    target = parse_uri(uri)
    assert FailoverOptions(reconnect_seconds_max=5.0) == target.failover
    (source,) = target.sources
    assert isinstance(source, DnsSource)
    assert TlsSettings(ca_file="x", key_file="y") == source.template.tls


def test_the_short_form_of_addresses_takes_options() -> None:
    """An address keeps its own, in the parentheses."""
    target = parse_uri("discovery:static:(stomp://a?connectionTimeout=7)?randomize=false")
    assert target.failover == FailoverOptions(is_randomized=False)
    assert [0.007] == [address.connect_seconds_max for address in target.addresses]


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("discovery:", "no source"),
        ("discovery:()", "no source"),
        ("discovery:(dns:a.test", "not closed"),
        ("discovery:(dns:a.test)x", "after the parenthesis"),
        ("discovery:(dns:a.test)?ssl=true", "'ssl'"),
        ("discovery:dns:a.test?colour=red", "'colour'"),
        ("discovery:static:(stomp://a)?colour=red", "'colour'"),
        ("discovery:dns:a.test?backup=true", "not implemented"),
        ("discovery:(tcp:a.test)", "unknown source"),
        ("discovery:a.test", "unknown source"),
        ("mdns:orders", "mdns: is not served"),
        ("multicast://default", "multicast: is not served"),
        ("peer://group/broker", "peer: is not served"),
        ("fanout:(static:(stomp://a))", "fanout: is not served"),
    ],
)
def test_mistakes_of_discovery_are_named(uri: str, words: str) -> None:
    """What other clients know and this one does not says what to use, wherever it stands."""
    (problem,) = problems_of(uri)
    assert words in problem


def test_port_0_is_not_the_default() -> None:
    """It was written; nobody listens there."""
    with pytest.raises(ConfigError, match="port 0"):
        parse_uri("stomp://a:0")
