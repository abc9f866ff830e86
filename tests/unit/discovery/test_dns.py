"""
What DNS says, and what is made of it: by a nameserver that says what a real one would not.
"""

from __future__ import annotations

import time
from typing import Any

import dns.message
import dns.rcode
import dns.resolver
import pytest
from scripted_nameserver import ScriptedNameserver

from holdfast.discovery import dns as asking
from holdfast.discovery.candidates import CANDIDATES_MAX, Answer, Candidate, NoAnswer
from holdfast.discovery.dns import look_up
from holdfast.discovery.question import DnsQuestion

SECONDS_MAX = 30.0
"""Whoever waits longer waits for something that will not happen."""
SERVICE = "_holdfast._tcp.orders.test"


def question(nameserver: ScriptedNameserver, name: str = "orders.test", **more: Any) -> DnsQuestion:
    return DnsQuestion(
        name=name,
        nameserver="127.0.0.1",
        nameserver_port=nameserver.port,
        **{"port": 61613, **more},
    )


def why_not(nameserver: ScriptedNameserver, name: str = "orders.test", **more: Any) -> str:
    outcome = look_up(question(nameserver, name, **more), SECONDS_MAX)
    assert isinstance(outcome, NoAnswer), outcome
    return outcome.why


def answer(nameserver: ScriptedNameserver, name: str = "orders.test", **more: Any) -> Answer:
    outcome = look_up(question(nameserver, name, **more), SECONDS_MAX)
    assert isinstance(outcome, Answer), outcome
    return outcome


def test_srv_records_tell_hosts_ports_priorities_and_weights(
    nameserver: ScriptedNameserver,
) -> None:
    """The lowest TTL of all that was asked counts; names are looked up where the name was."""
    nameserver.records[(SERVICE, "SRV")] = ["20 5 7002 b.test.", "10 0 7001 a.test."]
    nameserver.records[("a.test", "A")] = ["127.0.0.1"]
    nameserver.records[("b.test", "AAAA")] = ["::1"]
    found = answer(nameserver)
    assert found.candidates == (
        Candidate("127.0.0.1", 7001, "orders.test", 10, 0),
        Candidate("::1", 7002, "orders.test", 20, 5),
    )
    assert (60.0, ()) == (found.seconds, found.remarks)


def test_a_name_without_srv_records_is_looked_up_by_address(nameserver: ScriptedNameserver) -> None:
    """Of both kinds, with the port that was said."""
    nameserver.records[("orders.test", "A")] = ["10.0.0.1", "10.0.0.2"]
    nameserver.records[("orders.test", "AAAA")] = ["fd00::1"]
    found = answer(nameserver, port=7)
    assert [("10.0.0.1", 7), ("10.0.0.2", 7), ("fd00::1", 7)] == sorted(
        (it.host, it.port) for it in found.candidates
    )
    assert [(SERVICE, "SRV"), ("orders.test", "A"), ("orders.test", "AAAA")] == nameserver.asked


def test_by_tls_other_records_are_asked_for(nameserver: ScriptedNameserver) -> None:
    """So one domain may have both; those in clear are never taken for those by TLS."""
    nameserver.records[(SERVICE, "SRV")] = ["0 0 61613 a.test."]
    nameserver.records[("a.test", "A")] = ["127.0.0.1"]
    assert "_holdfast-tls._tcp.orders.test" in why_not(nameserver, is_secure=True)


def test_a_name_of_srv_records_is_asked_for_as_it_is(nameserver: ScriptedNameserver) -> None:
    """And has no addresses to fall back to."""
    assert f"{SERVICE} has no SRV records" == why_not(nameserver, SERVICE)
    assert [(SERVICE, "SRV")] == nameserver.asked


def test_the_target_is_not_whom_a_certificate_must_name(nameserver: ScriptedNameserver) -> None:
    """Whoever forges DNS names a host that he has a certificate for: the user's word counts."""
    nameserver.records[(SERVICE, "SRV")] = ["0 0 1 evil.example."]
    nameserver.records[("evil.example", "A")] = ["127.0.0.9"]
    (found,) = answer(nameserver).candidates
    assert ("127.0.0.9", "orders.test") == (found.host, found.name)


def test_targets_in_a_trusted_domain_show_their_own_names(nameserver: ScriptedNameserver) -> None:
    """Whoever is outside of it is left out, also one whose name only ends alike."""
    hosts = ("A.nodes.test", "evilnodes.test", "evil.example")
    nameserver.records[(SERVICE, "SRV")] = [f"0 0 1 {host}." for host in hosts]
    for host in hosts:
        nameserver.records[(host, "A")] = ["127.0.0.1"]
    found = answer(nameserver, trusted_domain="nodes.test")
    assert ["A.nodes.test"] == [it.name for it in found.candidates]
    assert "not within trustedDomain nodes.test" in found.remarks[0]
    assert "evilnodes.test" in found.remarks[0]


def test_without_a_nameserver_named_the_system_looks_targets_up(
    nameserver: ScriptedNameserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay names, so that what the machine knows by itself counts."""

    def configured(*, configure: bool) -> dns.resolver.Resolver:
        assert configure
        resolver = unconfigured(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], nameserver.port
        return resolver

    unconfigured = dns.resolver.Resolver
    monkeypatch.setattr(dns.resolver, "Resolver", configured)
    nameserver.records[(SERVICE, "SRV")] = ["0 0 7001 a.test."]
    found = look_up(DnsQuestion(name="orders.test", port=1), 5.0)
    assert isinstance(found, Answer)
    assert ["a.test"] == [it.host for it in found.candidates]
    assert [(SERVICE, "SRV")] == nameserver.asked


def test_a_machine_without_nameservers_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without resolv.conf."""

    def unconfigured(*, configure: bool) -> None:
        raise dns.resolver.NoResolverConfiguration

    monkeypatch.setattr(dns.resolver, "Resolver", unconfigured)
    found = look_up(DnsQuestion(name="orders.test", port=1), 5.0)
    assert isinstance(found, NoAnswer)
    assert "?nameserver=ADDRESS" in found.why


# Nothing there, nobody there ------------------------------------------------------------------


def test_a_service_that_is_not_offered_is_an_answer(nameserver: ScriptedNameserver) -> None:
    """RFC 2782: a target of "." says so on purpose; addresses are not fallen back to."""
    nameserver.records[(SERVICE, "SRV")] = ["0 0 0 ."]
    nameserver.records[("orders.test", "A")] = ["127.0.0.1"]
    found = answer(nameserver)
    assert () == found.candidates
    assert f"{SERVICE} says that there is no service" == found.remarks[0]


def test_a_name_that_is_gone_is_named(nameserver: ScriptedNameserver) -> None:
    """With all that was asked for."""
    assert f"{SERVICE} has no SRV records, and orders.test no addresses" == why_not(nameserver)


def test_a_silent_nameserver_is_given_up_in_time(nameserver: ScriptedNameserver) -> None:
    """Within the seconds that were given, and the name is told."""
    nameserver.is_silent = True
    began = time.monotonic()
    found = look_up(question(nameserver), 0.2)
    assert time.monotonic() - began < 10.0
    assert NoAnswer(f"no answer about {SERVICE} (SRV) within 0.2 s") == found


def test_a_nameserver_that_fails_leads_to_nothing_else(nameserver: ScriptedNameserver) -> None:
    """Else who can disturb one question would choose which records are used."""

    def fail(query: dns.message.Message) -> bytes:
        if query.question[0].rdtype != dns.rdatatype.SRV:
            return nameserver.by_records(query)
        response = dns.message.make_response(query)
        response.set_rcode(dns.rcode.SERVFAIL)
        return response.to_wire()

    nameserver.records[("orders.test", "A")] = ["127.0.0.1"]
    nameserver.respond = fail
    assert f"no answer about {SERVICE} (SRV)" in why_not(nameserver)


@pytest.mark.parametrize("failing", ["A", "AAAA"])
def test_one_kind_of_address_is_enough(nameserver: ScriptedNameserver, failing: str) -> None:
    """A nameserver that fails at the other does not take it away; alone it is no empty answer."""

    def fail(query: dns.message.Message) -> bytes:
        if dns.rdatatype.to_text(query.question[0].rdtype) != failing:
            return nameserver.by_records(query)
        response = dns.message.make_response(query)
        response.set_rcode(dns.rcode.SERVFAIL)
        return response.to_wire()

    nameserver.respond = fail
    nameserver.records[("orders.test", "TXT")] = ["x"]
    assert f"no answer about orders.test ({failing})" in why_not(nameserver)
    nameserver.records[("orders.test", "A")] = ["127.0.0.1"]
    nameserver.records[("orders.test", "AAAA")] = ["::1"]
    assert 1 == len(answer(nameserver).candidates)


# Bad answers ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_of_a_thousand_records_the_first_are_used(nameserver: ScriptedNameserver) -> None:
    """By priority, and it is said how many were left out."""
    nameserver.records[(SERVICE, "SRV")] = [
        f"{1000 - number} 0 {number + 1} h.test." for number in range(1000)
    ]
    nameserver.records[("h.test", "A")] = ["127.0.0.1"]
    found = answer(nameserver)
    assert list(range(1, CANDIDATES_MAX + 1)) == [it.priority for it in found.candidates]
    assert f"left out: {1000 - CANDIDATES_MAX} of 1000 SRV records" == found.remarks[0]


def test_of_a_thousand_addresses_the_first_are_used(nameserver: ScriptedNameserver) -> None:
    """And it is said how many were left out."""
    nameserver.records[("orders.test", "A")] = [
        f"10.0.{number // 250}.{number % 250}" for number in range(1000)
    ]
    found = answer(nameserver)
    assert CANDIDATES_MAX == len(found.candidates)
    assert f"left out: {1000 - CANDIDATES_MAX} of 1000 candidates" == found.remarks[0]


def test_what_cannot_be_dialed_is_left_out(nameserver: ScriptedNameserver) -> None:
    """Port 0, names that are none, names without an address; the others are used."""
    nameserver.records[(SERVICE, "SRV")] = [
        "0 0 0 a.test.",
        "1 0 1 sp\\032ace.test.",
        "2 0 1 \\195\\188.test.",
        "3 0 1 gone.test.",
        "4 0 1 a.test.",
    ]
    nameserver.records[("a.test", "A")] = ["127.0.0.1"]
    found = answer(nameserver)
    assert [4] == [it.priority for it in found.candidates]
    (remark,) = found.remarks
    assert "a.test': nobody listens on port 0" in remark
    assert 2 == remark.count("no host name")
    assert "gone.test: it has no A" in remark


@pytest.mark.slow
def test_where_none_can_be_dialed_it_is_no_answer(nameserver: ScriptedNameserver) -> None:
    """What was known before is kept; many of them are counted, not listed."""
    nameserver.records[(SERVICE, "SRV")] = [f"{number} 0 0 a.test." for number in range(1, 501)]
    why = why_not(nameserver)
    assert "none of the SRV records can be used" in why
    assert "496 more" in why
    assert len(why) < 500


@pytest.mark.parametrize("steps", [2, 40])
def test_names_that_stand_for_each_other_end(nameserver: ScriptedNameserver, steps: int) -> None:
    """A circle of aliases in one answer is told, not followed for ever."""

    def circle(query: dns.message.Message) -> bytes:
        response = dns.message.make_response(query)
        names = [query.question[0].name.to_text(), *(f"c{at}.test." for at in range(1, steps))]
        response.answer = [
            dns.rrset.from_text(name, 60, "IN", "CNAME", names[(at + 1) % steps])
            for at, name in enumerate(names)
        ]
        return response.to_wire(max_size=65535)

    nameserver.respond = circle
    assert SERVICE in why_not(nameserver)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        b"\x00\x01",  # cut in the middle of the numbers
        b"\x00\x00\x00\x00\x00\x07\x40" + b"a" * 9,  # a label with a type that there is not
        b"\x00\x00\x00\x00\x00\x07\xc0\xff",  # a pointer to nowhere
        b"\x00\x00\x00\x00\x00\x07" + (b"\x3f" + b"a" * 63) * 4 + b"\x00",  # 257 octets of name
    ],
    ids=["empty", "short", "cut", "label", "pointer", "long"],
)
def test_a_record_of_nonsense_is_no_answer(nameserver: ScriptedNameserver, data: bytes) -> None:
    """An SRV record that cannot be read; nothing is made of it."""

    def nonsense(query: dns.message.Message) -> bytes:
        head = bytearray(dns.message.make_response(query).to_wire())
        head[7] = 1  # One answer.
        record = b"\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x3c" + len(data).to_bytes(2, "big") + data
        return bytes(head) + record

    nameserver.respond = nonsense
    outcome = look_up(question(nameserver), 0.2)
    assert isinstance(outcome, NoAnswer)
    assert SERVICE in outcome.why


def test_a_name_that_dns_cannot_have_is_no_answer(nameserver: ScriptedNameserver) -> None:
    """With the labels of the service before it, it is longer than 253 octets."""
    assert SERVICE[:15] in why_not(nameserver, ".".join(["x" * 61] * 4))
    assert [] == nameserver.asked


def test_a_mistake_of_ours_is_told_to_who_waits(
    nameserver: ScriptedNameserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or he would wait for ever."""

    def fail(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(asking, "_answer", fail)
    nameserver.records[("orders.test", "A")] = ["127.0.0.1"]
    assert "oops" in why_not(nameserver)
