"""
What a shovel makes of a message: where it goes, with which headers, and why it may have to stay.

What a broker says of a delivery is its own affair and stays behind; what the sender said goes on.
By STOMP not all of a JMS message is told: ActiveMQ gives an object that is no text an empty body
unless it is asked for JSON, and tells of no message group.

Invariants:
    A message that would arrive as less than it is stays where it is, and is told of.
    One that has been carried so often that somebody carries it round stays as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from holdfast.client.wire import POSSIBLE_DUPLICATE, RESERVED
from holdfast.errors import ConfigError
from holdfast.model.destination import Kind, has_wildcards

HOPS: Final = "shovel-hops"
"""How often a message was carried by a shovel."""

HOPS_MAX: Final = 4
"""Two shovels that carry one queue there and back stop at that."""

ORIGINAL_ID: Final = "original-message-id"

ACTIVEMQ: Final = "ActiveMQ/"
"""How ActiveMQ Classic begins to say what it is."""

_OF_THE_DELIVERY: Final = frozenset(
    {
        *("ack", "browser", "JMSXDeliveryCount", "JMSXGroupFirstForConsumer", "JMSXUserID"),
        *("producer-id", "producer-sequence", "scheduledJobId"),
    }
)
_IS_OF_SCHEDULE: Final = re.compile("AMQ_SCHEDULED_").match
"""Its time has come: told again it would be kept once more."""

_KINDS: Final = frozenset(kind.value for kind in Kind)


class Route(NamedTuple):
    """From one destination to another one."""

    source: str
    target: str
    """Empty: the one of the same name, of a wildcard for each message."""

    @property
    def is_wild(self) -> bool:
        """Whether its source stands for several destinations."""
        return _is_wild(self.source)

    @property
    def is_topic(self) -> bool:
        """Whether what nobody receives there is gone."""
        return self.source.startswith("/topic/")

    def target_of(self, destination: str) -> str:
        """Where a message goes that was delivered of this destination."""
        return self.target or (destination if self.is_wild else self.source)


class Stay(NamedTuple):
    """Why a message is not carried."""

    reason: str
    """A word for tables and programs."""

    told: str


def routes_of(texts: Iterable[str]) -> list[Route]:
    """
    Read routes, each `SOURCE` or `SOURCE=TARGET`; a name alone is a queue's.

    Raises:
        ConfigError: With each that is none.
    """
    found, problems = [], []
    for text in texts:
        source, equals, target = text.partition("=")
        parts = [source, target] if equals else [source]
        wrong = [problem for part in parts if (problem := _problem(part))]
        if equals and _is_wild(target):
            wrong.append("a target is one destination, without a wildcard")
        problems += [f"{text}: {it}" for it in wrong]
        if not wrong:
            found.append(Route(_whole(source), _whole(target) if equals else ""))
    if len({it.source for it in found}) < len(found):
        problems.append("a source is named twice: each of its messages goes to one place")
    if problems:
        raise ConfigError(problems)
    return found


def _problem(text: str) -> str:
    if not text:
        return "expected SOURCE or SOURCE=TARGET"
    if not text.startswith("/"):
        return ""
    kind, slash, name = text[1:].partition("/")
    if kind not in _KINDS or kind.startswith("temp"):
        return f"/{kind}/ is no kind of destination to carry; /queue/NAME or /topic/NAME"
    return "" if slash and name else "the name is missing"


def _is_wild(destination: str) -> bool:
    return has_wildcards(destination.rpartition("/")[2])


def _whole(text: str) -> str:
    return text if text.startswith("/") else f"/queue/{text}"


def carried(headers: Mapping[str, str], *, is_doubtful: bool, to_activemq: bool) -> dict[str, str]:
    """
    Give the headers with which a message goes on.

    Args:
        is_doubtful: It may have been carried, or received by somebody, before.
        to_activemq: It is sent to ActiveMQ, which takes what has a length for bytes.
    """
    kept = {
        name: value
        for name, value in headers.items()
        if name not in RESERVED and name not in _OF_THE_DELIVERY and not _IS_OF_SCHEDULE(name)
    }
    kept.setdefault(ORIGINAL_ID, headers["message-id"])
    kept[HOPS] = str(hops_of(headers) + 1)
    if is_doubtful:
        kept[POSSIBLE_DUPLICATE] = "true"
    if "content-length" not in headers:
        if to_activemq:
            kept.setdefault("amq-msg-type", "text")
        elif "transformation" not in headers:
            kept.setdefault("content-type", "text/plain;charset=utf-8")
    return kept


def hops_of(headers: Mapping[str, str]) -> int:
    """How often a message was carried; what is no number is never."""
    text = headers.get(HOPS, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0


def why_stays(
    headers: Mapping[str, str], body: bytes, target: str, *, server: str, takes_empty: bool
) -> Stay | None:
    """
    Tell why a message is not carried; None: it is.

    Args:
        target: Where it would go.
        server: What the broker says it is that has delivered it.
        takes_empty: Whoever carries says that what is empty was sent so.
    """
    if hops_of(headers) >= HOPS_MAX:
        told = f"it was carried {HOPS_MAX} times: shovels carry it round, end one of them"
        return Stay("hops", told)
    if _problem(target) or _is_wild(target):
        return Stay("destination", f"it came as one of {target!r}, which is no place to carry to")
    if error := headers.get("transformation-error"):
        return Stay("object", f"its object cannot be told by STOMP ({error})")
    is_told_empty = not body and "content-length" not in headers
    if is_told_empty and server.startswith(ACTIVEMQ) and not takes_empty:
        told = (
            "ActiveMQ tells it without a body, as it does with what is neither text nor bytes:"
            " --transformation jms-json lets it tell objects and maps, if it can; --with-empty"
            " where such messages were sent empty"
        )
        return Stay("empty", told)
    return None
