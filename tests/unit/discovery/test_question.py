"""
Which records are asked for, and whom a certificate must name.
"""

from __future__ import annotations

import pytest

from holdfast.discovery.question import DnsQuestion


@pytest.mark.parametrize(
    ("name", "is_secure", "service", "domain"),
    [
        ("orders.test", False, "_holdfast._tcp.orders.test", "orders.test"),
        ("orders.test", True, "_holdfast-tls._tcp.orders.test", "orders.test"),
        ("_stomp._tcp.orders.test", True, "_stomp._tcp.orders.test", "orders.test"),
        ("_odd", False, "_odd", "_odd"),
    ],
)
def test_a_name_says_what_is_asked_for(
    name: str, is_secure: bool, service: str, domain: str
) -> None:
    """A name of SRV records as it stands; of another one those that are ours."""
    question = DnsQuestion(name=name, is_secure=is_secure, port=61613)
    assert (service, domain) == (question.service, question.domain)
