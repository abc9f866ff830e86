"""
One address of a URI; its mistakes are in test_uri, as users meet them.
"""

from __future__ import annotations

from holdfast.client.address import ADDRESS_OPTIONS, Address, parse_address, with_option
from holdfast.client.settings import TlsSettings


def test_an_address_shows_where_it_is_and_not_whom_it_wants() -> None:
    """In logs and events: what was dialed, whoever it has to be."""
    found = Address("10.0.0.1", 61614, TlsSettings(), name="orders.test")
    assert "stomp+ssl://10.0.0.1:61614" == str(found)
    assert "stomp://[::1]:1" == str(Address("::1", 1))


def test_every_option_of_an_address_is_known() -> None:
    """What is listed where one is unknown is what is taken."""
    problems: list[str] = []
    values = {"connectionTimeout": "7"}
    for option in ADDRESS_OPTIONS:
        with_option(Address("a", 1, TlsSettings()), option, values.get(option, "true"), problems)
    assert [] == problems


def test_an_addresss_own_option_goes_before_those_of_all() -> None:
    """`nested.` says what holds where nothing else is said."""
    problems: list[str] = []
    nested = [("connectionTimeout", "500"), ("caFile", "all")]
    found = parse_address("stomp+ssl://a?caFile=own", nested, problems)
    assert Address("a", 61614, TlsSettings(ca_file="own"), 0.5) == found
    assert [] == problems
