"""
Advisories as values: which there are, and how they are written.
"""

from __future__ import annotations

import json

import pytest

from holdfast.errors import DestinationError
from holdfast.model.advisories import (
    CONSUMER,
    Advisory,
    body_of,
    is_advisory,
    lines_of,
    require_said,
    wants,
)


def test_a_name_says_whether_it_is_about_advisories() -> None:
    """
    By what it begins with, dot and all.
    """
    assert is_advisory("ActiveMQ.Advisory.Queue")
    assert not is_advisory("ActiveMQ.Advisory")
    assert not is_advisory("my.ActiveMQ.Advisory.Queue")


@pytest.mark.parametrize("rest", ["Consumer.Queue.a", "*.Queue.>", ">", "Consumer.>"])
def test_a_pattern_may_mean_consumers(rest) -> None:
    """
    By name or by a wildcard.
    """
    require_said(f"ActiveMQ.Advisory.{rest}")
    assert wants(f"ActiveMQ.Advisory.{rest}", CONSUMER)


def test_what_is_never_said_is_refused_with_what_there_is() -> None:
    """
    With the kind, shortened, as a client wrote it.
    """
    assert not wants("ActiveMQ.Advisory.Queue", CONSUMER)
    with pytest.raises(DestinationError, match="'MasterBroker' are not served"):
        require_said("ActiveMQ.Advisory.MasterBroker.Queue.a")
    with pytest.raises(DestinationError) as caught:
        require_said("ActiveMQ.Advisory." + "x" * 100_000)
    assert len(str(caught.value)) < 1_000


def test_lines_are_escaped_and_bodies_are_of_their_form() -> None:
    """
    What a name contains ends neither a line nor an element.
    """
    advisory = Advisory(
        "ActiveMQ.Advisory.Queue",
        (("destinationName", "a:\n\\<"), ("count", 3)),
        "DestinationInfo",
        {"destination": "a<\n", "inner": {"yes": True, "no": False, "n": 1}},
    )
    lines = lines_of(advisory, ("n1", "ID:c-n1"), is_xml=False)
    assert lines == (
        b"destination:/topic/ActiveMQ.Advisory.Queue\n"
        b"type:Advisory\noriginBrokerName:n1\noriginBrokerId:ID\\cc-n1\n"
        b"destinationName:a\\c\\n\\\\<\ncount:3\ntransformation:jms-advisory-json\n"
    )
    assert json.loads(body_of(advisory, is_xml=False)) == {"DestinationInfo": advisory.structure}
    assert b"transformation:jms-advisory-xml\n" in lines_of(advisory, ("", ""), is_xml=True)
    assert body_of(advisory, is_xml=True) == (
        b"<DestinationInfo><destination>a&lt;\n</destination>"
        b"<inner><yes>true</yes><no>false</no><n>1</n></inner></DestinationInfo>"
    )
