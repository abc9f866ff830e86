"""
The sources of a `discovery:` URI: what is read, and what is said of mistakes.
"""

from __future__ import annotations

import pytest

from holdfast.client.address import Address
from holdfast.client.discovered import (
    DnsSource,
    is_refused,
    parse_sources,
    split_outside,
    unserved,
)
from holdfast.client.settings import TlsSettings
from holdfast.discovery.question import DnsQuestion


def read(text: str, nested: list[tuple[str, str]] | None = None) -> DnsSource:
    problems: list[str] = []
    (source,) = parse_sources([text], nested or [], problems)
    assert [] == problems
    assert isinstance(source, DnsSource)
    return source


def problem_of(text: str) -> str:
    problems: list[str] = []
    parse_sources([text], [], problems)
    (problem,) = problems
    return problem


def test_a_name_alone_is_in_clear_at_the_usual_port() -> None:
    """As `stomp://` is."""
    source = read("dns:orders.test.")
    assert DnsQuestion(name="orders.test", port=61613) == source.question
    assert Address("orders.test", 61613) == source.template
    assert "dns:orders.test" == str(source)


def test_what_is_said_of_a_name_holds_for_all_that_are_found() -> None:
    """TLS is the user's word: no answer of DNS switches it off."""
    source = read(
        "dns:orders.test?trustedDomain=.nodes.test&caFile=ca.pem&ssl=true&port=7"
        "&nameserver=[::1]:5353&connectionTimeout=500",
        [("keyFile", "k")],
    )
    assert source.question == DnsQuestion(
        name="orders.test",
        is_secure=True,
        port=7,
        trusted_domain="nodes.test",
        nameserver="::1",
        nameserver_port=5353,
    )
    tls = TlsSettings(ca_file="ca.pem", key_file="k")
    assert Address("orders.test", 61614, tls, 0.5) == source.template


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [("10.0.0.1", "10.0.0.1", 53), ("10.0.0.1:8600", "10.0.0.1", 8600), ("::1", "::1", 53)],
)
def test_a_nameserver_is_an_address(written: str, host: str, port: int) -> None:
    """With a port or without, of either family."""
    question = read(f"dns:orders.test?nameserver={written}").question
    assert (host, port) == (question.nameserver, question.nameserver_port)


def test_a_name_of_other_letters_is_asked_for_as_dns_has_it() -> None:
    """And so it stands in certificates."""
    assert "xn--bcher-kva.test" == read("dns:bücher.test").question.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dns:", "expected dns:NAME"),
        ("dns:orders.test/x", "expected dns:NAME"),
        ("dns:orders.test:61613", "?port=PORT"),
        ("dns:10.0.0.1", "use static:"),
        ("dns:[::1]", "use static:"),
        ("dns:or ders.test", "is no name"),
        ("dns:a..test", "is no name"),
        (f"dns:{'x' * 64}.test", "is no name"),
        (f"dns:{'.'.join(['x' * 63] * 4)}", "at most 253"),
        ("dns:a.test?colour=red", "known are: ssl, port, nameserver, trustedDomain"),
        ("dns:a.test?caFile=x", "needs ?ssl=true"),
        ("dns:a.test?ssl=perhaps", "true or false"),
        ("dns:a.test?trustedDomain=b.test", "needs ?ssl=true"),
        ("dns:a.test?ssl=true&trustedDomain=b..test", "trustedDomain"),
        ("dns:a.test?port=0", "1 or more"),
        ("dns:a.test?port=65536", "end at 65535"),
        ("dns:_x._tcp.a.test?port=7", "SRV records tell the port"),
        ("dns:a.test?nameserver=ns.test", "expected ADDRESS"),
        ("dns:a.test?nameserver=10.0.0.1:0", "expected ADDRESS"),
        ("dns:a.test?nameserver=10.0.0.1:99999", "expected ADDRESS"),
        ("static:", "no address"),
        ("static:(stomp://a", "in parentheses"),
        ("static:(stomp://a)?x=1", "in parentheses"),
        ("static:(tcp://a)", "scheme 'tcp'"),
        ("stomp://a", "write static:("),
        ("orders.test", "unknown source"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    """One sentence each, with what is expected."""
    assert words in problem_of(text)


@pytest.mark.parametrize(
    ("scheme", "instead"),
    [
        *((it, "dns:NAME") for it in ("mdns", "zeroconf", "rendezvous", "multicast")),
        *((it, "dns:NAME") for it in ("http", "https", "ldap", "ldaps")),
        *((it, "failover:") for it in ("peer", "fanout")),
    ],
)
def test_what_others_have_is_refused_with_what_to_use(scheme: str, instead: str) -> None:
    """A user who comes from ActiveMQ is told where to go on."""
    text = f"{scheme.upper()}://default"
    assert is_refused(text)
    assert f"{scheme}: is not served" in problem_of(text)
    assert instead in unserved(text)


def test_parentheses_hold_together() -> None:
    """A comma inside of them divides addresses, not sources."""
    assert ["a(b,(c,d))", "e", ""] == split_outside("a(b,(c,d)),e,", ",")
