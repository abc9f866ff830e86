"""
What the headers of STOMP requests say, checked, and the sentences of what they cannot say.

A value that makes no sense refuses its request and leaves the connection alone: the client's
developer reads the sentence in the ERROR frame.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.broker.returning import SILENT, Rejection
from holdfast.broker.serving.consumer import (
    NO_CLAIM,
    AcknowledgeMode,
    Claim,
)
from holdfast.errors import DestinationError, RefusedError, UnknownDeliveryError
from holdfast.model.consumer_wishes import browser_wished, wished
from holdfast.model.destination import Kind
from holdfast.model.groups import group_hash
from holdfast.model.limits import (
    CONSUMER_PRIORITY_MAX,
    CONSUMER_PRIORITY_MIN,
    GROUP_SEQUENCE_MAX,
    GROUP_SEQUENCE_MIN,
)
from holdfast.model.policies import read_values
from holdfast.model.policy_option import Value
from holdfast.model.redelivery import DELAY_MS_MAX
from holdfast.protocols.stomp.frames import Frame
from holdfast.sessions.requirements import read_number, read_producer_id

ZERO: Final = 0x30
"""Which begins no id: a number has one spelling."""

_WISHES_SERVED: Final = {
    *("prefetchSize", "dispatchAsync", "selector", "exclusive", "priority", "browser"),
    *("maximumPendingMessageLimit", "noLocal", "retroactive"),
    *("subscriptionName", "subcriptionName"),
}
"""By ActiveMQ's names, behind `consumer.`. Whatever is said of `dispatchAsync`: nobody here waits
for a consumer."""

_REDELIVERY: Final = (
    "maximumRedeliveries",
    "initialRedeliveryDelay",
    "redeliveryDelay",
    "useExponentialBackOff",
    "backOffMultiplier",
    "maximumRedeliveryDelay",
)
"""What a SUBSCRIBE may say of redelivery, as header `activemq.…`."""


def require_served(options: dict[str, str]) -> list[str]:
    """
    Check what a SUBSCRIBE wants; give the names of options that nobody knows and nothing obeys.

    Raises:
        DestinationError: It wants what is not known, by an option of its destination.
    """
    unknown = []
    for name in options:
        if not name.startswith("consumer."):
            unknown.append(name)
        elif name.removeprefix("consumer.") not in _WISHES_SERVED:
            raise DestinationError(f"option {name!r} of the destination is not known")
    return unknown


def read_selector(headers: dict[str, str], options: dict[str, str]) -> str | None:
    """Give the selector of a SUBSCRIBE; None if it has none, as one of blanks says."""
    names = ("selector", "activemq.selector")
    for text in (*map(headers.get, names), options.get("consumer.selector")):
        if text is not None and text.strip():
            return text
    return None


_EXCLUSIVE: Final = ("activemq.exclusive", "x-single-active-consumer")
_PRIORITIES: Final = ("activemq.priority", "consumer-priority", "x-priority")
_NO_LOCAL: Final = ("no-local", "activemq.noLocal")
_RETROACTIVE: Final = ("activemq.retroactive",)
_SIGNED: Final = re.compile(r"[+-]?\d{1,3}", re.ASCII)
_SIGNED_32: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)


def read_claim(headers: dict[str, str], options: dict[str, str]) -> Claim:
    """
    Give what a SUBSCRIBE claims before other consumers.

    Raises:
        RefusedError: A value makes no sense.
    """
    is_exclusive = is_true(*wished(headers, _EXCLUSIVE, options, "exclusive"))
    name, text = wished(headers, _PRIORITIES, options, "priority")
    priority = 0
    if text is not None:
        is_number = _SIGNED.fullmatch(text.strip())
        priority = int(text) if is_number else CONSUMER_PRIORITY_MAX + 1
        if not CONSUMER_PRIORITY_MIN <= priority <= CONSUMER_PRIORITY_MAX:
            raise RefusedError(
                f"{name}: {text[:40]!r} is not a number"
                f" from {CONSUMER_PRIORITY_MIN} to {CONSUMER_PRIORITY_MAX}"
            )
    return Claim(priority, is_exclusive) if priority or is_exclusive else NO_CLAIM


def read_browser(headers: dict[str, str], options: dict[str, str]) -> bool:
    """
    Give whether a SUBSCRIBE only wants to look through a queue.

    Raises:
        RefusedError: The value makes no sense.
    """
    return is_true(*browser_wished(headers, options))


def read_no_local(headers: dict[str, str], options: dict[str, str]) -> str:
    """
    Give which word of a SUBSCRIBE says that it does not want what its own client sends; or nothing.

    Raises:
        RefusedError: The value makes no sense.
    """
    return _word(*wished(headers, _NO_LOCAL, options, "noLocal"))


def read_retroactive(headers: dict[str, str], options: dict[str, str]) -> str:
    """
    Give which word of a SUBSCRIBE says that it wants what was sent before, or nothing.

    Raises:
        RefusedError: The value makes no sense.
    """
    return _word(*wished(headers, _RETROACTIVE, options, "retroactive"))


def _word(name: str, text: str | None) -> str:
    return name if is_true(name, text) else ""


def is_true(name: str, text: str | None) -> bool:
    """
    Give whether a header, or an option, says true.

    Raises:
        RefusedError: It says neither true nor false.
    """
    if text not in {None, "true", "false"}:
        raise RefusedError(f"{name}: {text[:40]!r} is neither true nor false")
    return text == "true"


def read_group(headers: dict[str, str]) -> int:
    """
    Give the hash of the group that a SEND names; 0: it names none.

    Raises:
        RefusedError: Its `JMSXGroupSeq` is no number.
    """
    sequence = headers.get("JMSXGroupSeq")
    if sequence is not None and not _is_group_sequence(sequence.strip()):
        raise RefusedError(
            f"header JMSXGroupSeq: {sequence[:40]!r} is not a number from -2^31 to 2^31-1"
        )
    return group_hash(headers.get("JMSXGroupID", ""))


def _is_group_sequence(text: str) -> bool:
    if not _SIGNED_32.fullmatch(text):
        return False
    return GROUP_SEQUENCE_MIN <= int(text) <= GROUP_SEQUENCE_MAX


def read_mode(text: str) -> AcknowledgeMode:
    """
    Give the acknowledgement mode of a SUBSCRIBE.

    Raises:
        DestinationError: There is no such mode.
    """
    try:
        return AcknowledgeMode(text)
    except ValueError:
        modes = ", ".join(mode.value for mode in AcknowledgeMode)
        raise DestinationError(f"acknowledgement mode {text!r}; expected one of {modes}") from None


def read_redelivery(headers: dict[str, str]) -> dict[str, Value] | None:
    """
    Give what a SUBSCRIBE says of the redelivery of what it rejects; None if it says nothing.

    Raises:
        DestinationError: A value is none that there is.
    """
    said = {
        name: headers[f"activemq.{name}"].strip()
        for name in _REDELIVERY
        if f"activemq.{name}" in headers
    }
    if not said:
        return None
    spoken = read_values(Kind.QUEUE, said)
    for name, why in spoken.faults:
        raise DestinationError(f"header 'activemq.{name}': {why}")
    return spoken.values


def read_rejection(headers: dict[str, str]) -> Rejection:
    """
    Give what a NACK says beside the delivery that it rejects.

    Raises:
        RefusedError: It says what makes no sense.
    """
    requeue, delay = headers.get("requeue"), headers.get("delay")
    if requeue is None and delay is None:
        return SILENT
    if requeue not in {None, "true", "false"}:
        raise RefusedError(f"header requeue: {requeue[:40]!r} is neither true nor false")
    if delay is None:
        return Rejection(requeue == "true")
    if requeue == "false":
        raise RefusedError("header delay: what is not to come again cannot come later")
    delay_ms = read_number(delay.strip().encode(), "delay")
    if delay_ms > DELAY_MS_MAX:
        raise RefusedError(f"header delay: {delay_ms:,} ms; at most {DELAY_MS_MAX:,}")
    return Rejection(True if requeue else None, delay_ms)


def read_finished(frame: Frame) -> tuple[str, int] | None:
    """
    Give whose producers a COMMIT says are done with, and below which number; None: nobody's.

    Raises:
        RefusedError: The name is too long, or the number is none.
    """
    name = frame.headers.get("holdfast-forget")
    if name is None:
        return None
    text = frame.headers.get("holdfast-forget-before", "")
    return read_producer_id(name), read_number(text.encode(), "holdfast-forget-before")


def negative_key(digits: bytes) -> int:
    """
    Give the number of a delivery that is not kept; as it was told, and in no other spelling.

    Raises:
        ValueError: It is none.
    """
    if digits[:1] != b"-" or not digits[1:].isdigit() or digits[1] == ZERO:
        raise ValueError(digits)
    return int(digits)


def unknown_name(name: bytes) -> UnknownDeliveryError:
    """Say that an acknowledgement names no delivery of this connection."""
    shown = name.decode(errors="replace")[:80]
    return UnknownDeliveryError(f"{shown!r} is not the id of a delivery on this connection")
