"""
The door to dnspython, for who has it and who has not.
"""

from __future__ import annotations

import pytest
from scripted_nameserver import ScriptedNameserver

from holdfast.discovery import opening
from holdfast.discovery.candidates import Answer
from holdfast.discovery.opening import open_dns
from holdfast.discovery.question import DnsQuestion
from holdfast.errors import ConfigError


@pytest.mark.parametrize("missing", ["dns", "dns.resolver"])
def test_without_the_package_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Also where another package is called `dns`."""
    monkeypatch.setattr(opening, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(ConfigError, match=r"pip install 'holdfast\[discovery\]'"):
        open_dns()


def test_with_it_dns_is_asked(nameserver: ScriptedNameserver) -> None:
    """By the question as it is."""
    nameserver.records[("orders.test", "A")] = ["127.0.0.1"]
    question = DnsQuestion(
        name="orders.test", port=7, nameserver="127.0.0.1", nameserver_port=nameserver.port
    )
    assert isinstance(open_dns()(question, 5.0), Answer)
