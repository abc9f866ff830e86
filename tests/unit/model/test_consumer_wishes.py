"""
What a consumer wishes stands in a header or an option; the first name that is there counts.
"""

from __future__ import annotations

import pytest

from holdfast.model.consumer_wishes import browser_wished, wished

NAMES = ("new", "old")


@pytest.mark.parametrize(
    ("headers", "options", "found"),
    [
        ({}, {}, ("option consumer.x", None)),
        ({"old": " 1 "}, {"consumer.x": "2"}, ("header old", "1")),
        ({"old": "1", "new": ""}, {"consumer.x": "2"}, ("header new", "")),
        ({}, {"consumer.x": "2 ", "x": "3"}, ("option consumer.x", "2")),
    ],
)
def test_the_first_name_counts_and_spaces_do_not(headers, options, found) -> None:
    """A header goes before an option, also where it says nothing."""
    assert wished(headers, NAMES, options, "x") == found


def test_a_browser_has_two_headers_and_an_option() -> None:
    """ActiveMQ's, with and without its prefix."""
    for headers, options in (
        ({"browser": "true"}, {}),
        ({"activemq.browser": "true"}, {}),
        ({}, {"consumer.browser": "true"}),
    ):
        assert browser_wished(headers, options)[1] == "true"
