"""
Who listens to what the broker says of itself: a SUBSCRIBE to ActiveMQ's topics of advisories.

What nobody ever says is refused, as its consumer would wait for ever. A client that asks for one
form gets that or is told that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.serving.listeners import AdvisoryTopic
from holdfast.errors import DestinationError
from holdfast.model.advisories import is_advisory, require_said
from holdfast.model.destination import Destination, Kind
from holdfast.sessions.bundles import pattern_of

_JSON: Final = (None, "jms-json", "jms-advisory-json")
_XML: Final = ("jms-xml", "jms-advisory-xml")


def are_advisories(sources: tuple[Destination, ...]) -> bool:
    """Whether a SUBSCRIBE is to advisories, and to nothing else."""
    first = sources[0]
    return len(sources) == 1 and first.kind is Kind.TOPIC and is_advisory(first.name)


def listen(broker: Broker, written: Destination, headers: Mapping[str, str]) -> AdvisoryTopic:
    """
    Give the topic of those who listen to the same advisories in the same form.

    Raises:
        DestinationError: There are none of this kind, or not in this form.
    """
    require_said(written.name)
    form = headers.get("transformation")
    if form not in _JSON + _XML:
        known = ", ".join(each for each in _JSON + _XML if each)
        raise DestinationError(
            f"advisories are not written as {form[:40]!r} (header 'transformation');"
            f" expected one of {known}"
        )
    return broker.advising.listeners.topic(pattern_of(written), is_xml=form in _XML)
