"""
Sizes and protocol maxima, each named once, with its unit.

A limit that a user may change stands in a settings class; what stands here is fixed by a format.
"""

from __future__ import annotations

import re
from typing import Final

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB

MEMBERS_MAX: Final = 15
"""The largest cluster."""

STORES_MAX: Final = 8
"""Databases that keep one log."""

MESSAGE_BODY_BYTES_MAX: Final = 64 * MiB
"""The largest body of one message; an entry of the log must hold it whole."""

QUEUE_NAME_BYTES_MAX: Final = 1024
"""The longest name of a destination, in UTF-8 bytes."""

COMPOSITE_COUNT_MAX: Final = 64
"""To so many destinations at once a message may be sent."""

WILDCARD_SHAPES_MAX: Final = 256
"""In so many ways subscriptions may have wildcards: which of a name's parts stand for any."""

VIRTUAL_CONSUMERS_MAX: Final = 1000
"""So many queues may consume one virtual topic."""

BINDINGS_MAX: Final = 64
"""And so many more by wildcards in their names."""

CLIENT_NAME_BYTES_MAX: Final = 1024
"""The longest id of a subscription and name of a transaction, in UTF-8 bytes."""

CONSUMER_PRIORITY_MIN: Final = -128
CONSUMER_PRIORITY_MAX: Final = 127
"""Of a consumer of a queue; without one it has 0. ActiveMQ writes it as one byte."""

GROUP_SEQUENCE_MIN: Final = -(2**31)
GROUP_SEQUENCE_MAX: Final = 2**31 - 1
"""Of a message in its group: an int of Java, as JMS has it."""

PRODUCER_ID_BYTES_MAX: Final = 255
"""The longest producer id, in UTF-8 bytes."""

FLOOR_ID: Final = "holdfast-finished:"
"""What the ids of no client's producers begin with: behind it stands the name of producers that are
done with, and the last number is the first that may still come."""

HOLD_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""What a reader may call its hold on the log: all of it must match."""

HOLD_EXPIRY_SECONDS_DEFAULT: Final = 7 * 86_400
HOLD_EXPIRY_SECONDS_MIN: Final = 10
HOLD_EXPIRY_SECONDS_MAX: Final = 366 * 86_400
"""For how long a hold may stand without its reader being heard of."""

REDELIVERY_COUNT_MAX: Final = 0xFFFF
"""A redelivery count stops growing here."""

REPEATS_MAX: Final = 1000
"""So often a scheduled message is sent again, or without end; as in ActiveMQ."""
